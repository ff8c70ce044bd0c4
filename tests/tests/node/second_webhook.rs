//! A second webhook, which adds a container to pods without it. To pods of a dry run it also does
//! what old or careless webhooks do: it puts an init container first, and drops `restartPolicy` of
//! the proxy.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// A server on the API server's machine; it ends when the value is dropped.
pub(crate) struct SecondWebhook {
    _runtime: Runtime,
    address: SocketAddr,
    certificate: String,
}

impl SecondWebhook {
    /// Starts a webhook that adds `container`.
    pub(crate) fn start(container: Value) -> Result<Self> {
        let own = rcgen::generate_simple_self_signed([Ipv4Addr::LOCALHOST.to_string()])
            .context("signing a certificate")?;
        let key = PrivateKeyDer::Pkcs8(own.signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("starting a runtime")?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        runtime.spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), Arc::new(container)));
        Ok(Self { _runtime: runtime, address, certificate: own.cert.pem() })
    }

    /// Returns its webhook configuration for the pods of a namespace. Because of its name, the API
    /// server calls it after ours.
    pub(crate) fn registration(&self, namespace: &str) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": { "name": "the-second-webhook" },
            "webhooks": [{
                "name": "second.webhook.example",
                "clientConfig": {
                    "url": format!("https://{}/", self.address),
                    "caBundle": BASE64_STANDARD.encode(&self.certificate),
                },
                "rules": [{
                    "operations": ["CREATE"],
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["pods"],
                }],
                "namespaceSelector": {
                    "matchLabels": { "kubernetes.io/metadata.name": namespace },
                },
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
            }],
        })
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, container: Arc<Value>) {
    // If accepting fails, the API server reports that its call failed.
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, container) = (tls.clone(), Arc::clone(&container));
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(|request| answer(request, &container));
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            // The API server closes the connection.
            let _ = connection.await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    container: &Value,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let review: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
    let answer = review_of(&review["request"], container);
    Ok(Response::new(Full::from(answer.to_string())))
}

fn review_of(request: &Value, container: &Value) -> Value {
    let mut response = json!({ "uid": request["uid"], "allowed": true });
    let containers = request["object"]["spec"]["containers"].as_array();
    let has_it =
        containers.is_some_and(|own| own.iter().any(|other| other["name"] == container["name"]));
    if !has_it {
        let mut changes =
            vec![json!({ "op": "add", "path": "/spec/containers/-", "value": container })];
        if request["dryRun"] == true {
            changes.extend(damage(&request["object"]["spec"]["initContainers"]));
        }
        response["patchType"] = "JSONPatch".into();
        response["patch"] = BASE64_STANDARD.encode(Value::from(changes).to_string()).into();
    }
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": response,
    })
}

/// Returns the changes to the list of init containers.
fn damage(init_containers: &Value) -> Vec<Value> {
    let list = init_containers.as_array().map_or(&[][..], Vec::as_slice);
    let proxy = list.iter().position(|container| {
        container["name"] == "istio-proxy" && container["restartPolicy"].is_string()
    });
    let first = json!({ "name": FIRST, "image": "prepare:1" });
    let mut changes: Vec<_> = proxy
        .map(|at| json!({ "op": "remove", "path": format!("/spec/initContainers/{at}/restartPolicy") }))
        .into_iter()
        .collect();
    if !list.is_empty() {
        changes.push(json!({ "op": "add", "path": "/spec/initContainers/0", "value": first }));
    }
    changes
}

/// Name of the init container.
pub(crate) const FIRST: &str = "prepare";
