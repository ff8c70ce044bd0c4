//! A pod with its token, whose agent calls the control plane.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use pilot_agent::channel::{ChannelError, ChannelOptions, ControlPlane as Channel, Identity};
use pilot_agent::config::RootSource;
use pilot_agent::secrets::client::{CertificateClient, RequestError};
use pilot_xds::messages::{DeltaDiscoveryRequest, Node};
use pilot_xds::service::{DiscoveryService, Variant};
use pilot_xds::type_urls::CLUSTER;
use prost::Message;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_stream::StreamExt as _;
use tower::ServiceExt as _;

use crate::control_plane::ControlPlane;

/// Pod of the namespace `shop` and the account of its name.
pub(crate) struct TestPod<'a> {
    control_plane: &'a ControlPlane,
    pub(crate) name: &'static str,
    folder: TempDir,
}

impl<'a> TestPod<'a> {
    /// Creates the account and the pod, with the token that the injector's volume projects.
    pub(crate) async fn create(
        control_plane: &'a ControlPlane,
        name: &'static str,
    ) -> Result<Self> {
        let admin = control_plane.admin.clone();
        let account = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), "shop");
        accounts.create(&PostParams::default(), &account).await?;
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"serviceAccountName": name, "containers": [{"name": "app", "image": "app"}]},
        });
        let pods = Api::<Pod>::namespaced(admin, "shop");
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        let pod = Self { control_plane, name, folder: tempfile::tempdir()? };
        fs::write(pod.path("root-cert.pem"), &control_plane.roots)?;
        let token = pod.token("istio-ca").await?;
        pod.set_token(&token)?;
        Ok(pod)
    }

    /// Requests a token that is bound to the pod, as the kubelet does.
    pub(crate) async fn token(&self, audience: &str) -> Result<String> {
        let pods = Api::<Pod>::namespaced(self.control_plane.admin.clone(), "shop");
        let uid = pods.get(self.name).await?.metadata.uid;
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": uid});
        let spec = json!({"audiences": [audience], "boundObjectRef": bound});
        let request: TokenRequest = serde_json::from_value(json!({ "spec": spec }))?;
        let accounts = Api::<ServiceAccount>::namespaced(self.control_plane.admin.clone(), "shop");
        let parameters = PostParams::default();
        let token = accounts.create_token_request(self.name, &parameters, &request);
        Ok(token.await?.status.context("the request has no status")?.token)
    }

    pub(crate) fn set_token(&self, token: &str) -> Result<()> {
        Ok(fs::write(self.path("istio-token"), token)?)
    }

    /// Requests a certificate as the agent does.
    pub(crate) async fn sign(
        &self,
        csr: &str,
        lifetime: Duration,
    ) -> Result<Vec<String>, RequestError> {
        let client = CertificateClient::new(self.channel(None, true), Duration::from_secs(30));
        client.sign(csr.to_owned(), lifetime).await
    }

    /// Requests a certificate with a certificate alone.
    pub(crate) async fn sign_by_certificate(
        &self,
        csr: &str,
        identity: Identity,
    ) -> Result<Vec<String>, RequestError> {
        let channel = self.channel(Some(identity), false);
        CertificateClient::new(channel, Duration::from_secs(30)).sign(csr.to_owned(), DAY).await
    }

    /// Identity of the pod as the control plane sees it.
    pub(crate) async fn whoami(&self, identity: Option<Identity>) -> Result<String> {
        let (status, body) = self.get("/whoami", identity).await?;
        ensure!(status.is_success(), "{status}");
        Ok(body)
    }

    /// Asks for a page of the listener with TLS.
    pub(crate) async fn get(
        &self,
        path: &str,
        identity: Option<Identity>,
    ) -> Result<(StatusCode, String)> {
        let server = self.channel(identity, true).server();
        let (metadata, ..) = server.request(())?.into_parts();
        let uri = format!("http://{}{path}", server.address());
        let mut request = Request::get(uri).body(tonic::body::Body::empty())?;
        request.headers_mut().extend(metadata.into_headers());
        let response = server.connect().await?.oneshot(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8(body.to_vec())?))
    }

    /// Opens a stream for a node, and returns the answer to its first request.
    pub(crate) async fn discover(
        &self,
        identity: Option<Identity>,
        node: &str,
        service_account: &str,
    ) -> Result<(), tonic::Status> {
        let with_token = identity.is_none();
        let server = self.channel(identity, with_token).server();
        let failed = |error: ChannelError| tonic::Status::unknown(error.to_string());
        let account = Text { text: service_account.to_owned() };
        let metadata = Metadata { fields: [("SERVICE_ACCOUNT".to_owned(), account)].into() };
        let metadata = metadata.encode_to_vec().into();
        let node = Node { id: node.to_owned(), metadata, ..Node::default() };
        let request = DeltaDiscoveryRequest {
            node: Some(node.encode_to_vec().into()),
            type_url: CLUSTER.to_owned(),
            ..DeltaDiscoveryRequest::default()
        };
        // The stream of requests stays open.
        let first = tokio_stream::once(Bytes::from(request.encode_to_vec()));
        let requests = first.chain(tokio_stream::pending());
        let requests = server.request(requests).map_err(failed)?;
        let channel = server.connect().await.map_err(failed)?;
        let service = DiscoveryService::Aggregated;
        let opened = pilot_xds::client::open(channel, service, Variant::Delta, requests).await?;
        match opened.into_inner().message().await? {
            Some(_) => Ok(()),
            None => Err(tonic::Status::unknown("the stream has ended")),
        }
    }

    fn channel(&self, identity: Option<Identity>, with_token: bool) -> Channel {
        let options = ChannelOptions {
            address: self.control_plane.address.to_string(),
            server_name: Some("istiod.istio-system.svc".to_owned()),
            root: RootSource::File(self.path("root-cert.pem")),
            token: with_token.then(|| self.path("istio-token")),
            cluster_id: "Kubernetes".to_owned(),
            headers: Vec::new(),
            plaintext: false,
        };
        Channel::new(options, identity)
    }

    /// Makes a key and a signing request by `openssl`, with further arguments.
    pub(crate) fn request(&self, further: &[&str]) -> Result<String> {
        self.openssl(&[NEW_REQUEST, further].concat())
    }

    /// Identity of a signed chain and the latest key.
    pub(crate) fn identity(&self, chain: &[String]) -> Result<Identity> {
        let chain = [CertificateDer::from_pem_slice(chain[0].as_bytes())?];
        let key = PrivateKeyDer::from_pem_file(self.path("key.pem"))?;
        let key = CertifiedKey::from_der(chain.into(), key, &default_provider())?;
        Ok(watch::channel(Some(Arc::new(key))).1)
    }

    /// Text of a certificate, by `openssl`, which verifies it by `roots` first.
    pub(crate) fn verified(&self, leaf: &str, roots: &str) -> Result<String> {
        fs::write(self.path("leaf.pem"), leaf)?;
        fs::write(self.path("roots.pem"), roots)?;
        for purpose in ["sslserver", "sslclient"] {
            let verify = ["verify", "-x509_strict", "-purpose", purpose, "-CAfile", "roots.pem"];
            self.openssl(&[&verify[..], &["leaf.pem"]].concat())?;
        }
        self.openssl(&["x509", "-in", "leaf.pem", "-noout", "-text"])
    }

    fn openssl(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new("openssl")
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .context("openssl")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        Path::new(self.folder.path()).join(name)
    }
}

/// Metadata of a node, `google.protobuf.Struct`.
#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(btree_map = "string, message", tag = "1")]
    fields: BTreeMap<String, Text>,
}

/// `google.protobuf.Value` that is a text.
#[derive(Clone, PartialEq, Message)]
struct Text {
    #[prost(string, tag = "3")]
    text: String,
}

/// Claims of a token.
pub(crate) fn claims(token: &str) -> Result<Value> {
    use base64::Engine as _;
    let claims = token.split('.').nth(1).context("no claims")?;
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims)?;
    Ok(serde_json::from_slice(&claims)?)
}

/// Token with other claims and the signature of `token`.
pub(crate) fn forged(token: &str, claims: &Value) -> String {
    use base64::Engine as _;
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims.to_string());
    let mut parts: Vec<_> = token.split('.').collect();
    parts[1] = &claims;
    parts.join(".")
}

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
const NEW_REQUEST: &[&str] = &[
    "req",
    "-new",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
    "-keyout",
    "key.pem",
    "-subj",
    "/O=x",
];
