//! A client of the webhook: behaves as an API server, or misbehaves.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use webhook_certs::bundle::Bundle;

/// A kept connection.
#[derive(Debug)]
pub(crate) struct Caller {
    stream: TlsStream<TcpStream>,
    /// Bytes after the previous answer.
    rest: Vec<u8>,
}

/// An answer of the webhook.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Caller {
    /// Connects as an API server that trusts the CAs of a bundle.
    pub(crate) async fn connect(address: SocketAddr, bundle: &Bundle) -> Result<Self> {
        Self::connect_as(address, bundle, None).await
    }

    /// Connects with a client certificate, if given.
    pub(crate) async fn connect_as(
        address: SocketAddr,
        bundle: &Bundle,
        identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    ) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for ca in bundle.certificates() {
            roots.add(ca.der().clone())?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let config = match identity {
            Some((chain, key)) => config.with_client_auth_cert(chain, key)?,
            None => config.with_no_client_auth(),
        };
        let name = ServerName::try_from("sidecar-injector.istio-system.svc")?;
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        Ok(Self { stream, rest: Vec::new() })
    }

    /// Returns the certificate that the webhook presented.
    pub(crate) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.stream.get_ref().1.peer_certificates()?.first()
    }

    /// Sends a review of a pod. The answer must have a patch.
    pub(crate) async fn review(&mut self, review: &[u8]) -> Result<()> {
        let answer = self.call("POST", "/inject?timeout=5s", "application/json", review).await?;
        ensure!(answer.status == 200, "status {}", answer.status);
        let review: Value = serde_json::from_slice(&answer.body)?;
        ensure!(review["response"]["patch"].is_string(), "no patch: {review}");
        Ok(())
    }

    /// Sends a whole request and reads the answer.
    pub(crate) async fn call(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<Answer> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: webhook\r\nContent-Type: {content_type}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        // A server that rejects a request early answers before it has read everything.
        let _ = self.send(&[head.as_bytes(), body].concat()).await;
        self.answer().await
    }

    /// Sends raw bytes.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// Waits until the server closes the connection, and drops everything it sends before.
    pub(crate) async fn until_closed(&mut self) {
        let mut bytes = [0; 4096];
        while self.stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
    }

    async fn answer(&mut self) -> Result<Answer> {
        let mut bytes = std::mem::take(&mut self.rest);
        loop {
            let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
            if let Some(end) = end {
                let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
                let status = head.split(' ').nth(1).context("no status")?.parse()?;
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.context("no length")?.parse()?;
                let (begin, end) = (end + 4, end + 4 + length);
                if bytes.len() >= end {
                    self.rest = bytes.split_off(end);
                    return Ok(Answer { status, body: bytes.split_off(begin) });
                }
            }
            let count = self.stream.read_buf(&mut bytes).await?;
            ensure!(count > 0, "the answer breaks off");
        }
    }
}

/// Returns a review of a pod as an API server sends it.
pub(crate) fn review() -> Vec<u8> {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "namespace": "pods",
            "userInfo": {"username": "admin"},
            "object": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"generateName": "load-", "namespace": "pods",
                             "labels": {"app": "web", "version": "v1"}},
                "spec": {"serviceAccountName": "default", "containers": [{
                    "name": "app", "image": "app:1",
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "env": [{"name": "A", "value": "1"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
                }]},
            },
        },
    })
    .to_string()
    .into_bytes()
}
