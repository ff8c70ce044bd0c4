//! Minimal webhook server that allows everything, over TLS with a replica's certificate.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use webhook_certs::serving::{ServingCertificate, server_config};

/// A running server; it stops when it is dropped.
pub(crate) struct Reviewer {
    pub(crate) port: u16,
    acceptor: Arc<Mutex<TlsAcceptor>>,
    task: JoinHandle<()>,
}

impl Reviewer {
    pub(crate) async fn start(certificate: Arc<ServingCertificate>) -> Result<Self> {
        let listener = TcpListener::bind("localhost:0").await?;
        let port = listener.local_addr()?.port();
        let acceptor = Arc::new(Mutex::new(TlsAcceptor::from(server_config(certificate))));
        let shown = Arc::clone(&acceptor);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(stream).await?;
                    let review = read(&mut stream).await?;
                    stream.write_all(allow(&review).as_bytes()).await?;
                    stream.shutdown().await?;
                    anyhow::Ok(())
                });
            }
        });
        Ok(Self { port, acceptor, task })
    }

    /// Serves the certificate of another replica from now on.
    pub(crate) fn show(&self, certificate: Arc<ServingCertificate>) {
        let acceptor = TlsAcceptor::from(server_config(certificate));
        *self.acceptor.lock().unwrap_or_else(PoisonError::into_inner) = acceptor;
    }
}

impl Drop for Reviewer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Value> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            bail!("the request breaks off");
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length: usize = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .context("no Content-Length")?
            .1
            .parse()?;
        if body.len() >= length {
            return Ok(serde_json::from_str(body)?);
        }
    }
}

fn allow(review: &Value) -> String {
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true},
    })
    .to_string();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{answer}",
        answer.len()
    )
}
