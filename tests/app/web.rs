//! HTTP in both versions, with TLS or without.

use std::convert::Infallible;
use std::net::Ipv6Addr;
use std::sync::Arc;

use anyhow::{Context, Result};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::answer::{Question, answer};
use crate::failures::Failures;

/// Serves a port until an error.
pub(crate) async fn serve(port: u16, tls: Option<TlsAcceptor>, failures: Failures) -> Result<()> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await;
    let listener = listener.with_context(|| format!("listening on {port}"))?;
    loop {
        let (stream, peer) = listener.accept().await.context("taking a connection")?;
        let (tls, failures) = (tls.clone(), failures.clone());
        let peer = peer.ip().to_canonical();
        tokio::spawn(async move {
            match tls {
                None => serve_one(stream, Question { port, peer, tls: false, failures }).await,
                Some(tls) => {
                    // A client without TLS gets no answer.
                    if let Ok(stream) = tls.accept(stream).await {
                        serve_one(stream, Question { port, peer, tls: true, failures }).await;
                    }
                }
            }
        });
    }
}

async fn serve_one<S>(stream: S, question: Question)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(|request| {
        let question = question.clone();
        async move { Ok::<_, Infallible>(answer(request, &question).await) }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    // A broken connection is the client's concern.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// Creates a self-signed certificate.
pub(crate) fn self_signed() -> Result<TlsAcceptor> {
    let own = rcgen::generate_simple_self_signed(["app.example".to_owned()])
        .context("signing a certificate")?;
    let key = PrivateKeyDer::Pkcs8(own.signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("choosing versions of TLS")?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .context("taking the certificate")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
