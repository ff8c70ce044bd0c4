//! Export of spans to the collector, in batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fmt, io};

use async_trait::async_trait;
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::queue::Waiting;

/// Exporter that counts and logs the spans it could not send.
#[derive(Debug)]
pub(super) struct CountedExporter<E> {
    exporter: E,
    waiting: Waiting,
    fails: AtomicBool,
}

impl<E> CountedExporter<E> {
    pub(super) fn new(exporter: E, waiting: Waiting) -> Self {
        Self { exporter, waiting, fails: AtomicBool::new(false) }
    }
}

impl<E: SpanExporter> SpanExporter for CountedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        self.waiting.leave(count);
        let exported = self.exporter.export(batch).await;
        let failed_before = self.fails.swap(exported.is_err(), Ordering::Relaxed);
        if let Err(error) = &exported {
            self.waiting.lose(count);
            // Logged once until it works again, not for each batch.
            if !failed_before {
                tracing::warn!(%error, "spans cannot be sent to the collector");
            }
        } else if failed_before {
            tracing::info!("spans are sent to the collector again");
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// HTTP client with the libraries of the rest of the program. The SDK calls it from a thread
/// without a runtime, so requests run on the server's runtime.
pub(super) struct Client {
    runtime: Handle,
    pool: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    time_limit: Duration,
}

impl Client {
    pub(super) fn new(
        runtime: Handle,
        needs_tls: bool,
        time_limit: Duration,
    ) -> Result<Self, ClientError> {
        let builder = HttpsConnectorBuilder::new();
        let provider = Arc::new(default_provider());
        let builder = if needs_tls {
            builder.with_provider_and_native_roots(provider).map_err(ClientError::Roots)?
        } else {
            let trusted = RootCertStore::empty();
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(ClientError::Provider)?;
            builder.with_tls_config(config.with_root_certificates(trusted).with_no_client_auth())
        };
        let connector = builder.https_or_http().enable_http1().build();
        let pool = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { runtime, pool, time_limit })
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sending = self.pool.request(request.map(Full::new));
        let exchange = async move {
            let (head, body) = sending.await?.into_parts();
            let body = Limited::new(body, LARGEST_ANSWER).collect().await?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        let time_limit = self.time_limit;
        self.runtime.spawn(async move { timeout(time_limit, exchange).await? }).await?
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Error while creating the client of a collector.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The trusted CAs are unknown.
    #[error("the CAs of this machine: {0}")]
    Roots(#[source] io::Error),
    /// No version of TLS is available.
    #[error("TLS: {0}")]
    Provider(#[source] rustls::Error),
}

/// Returns the part of an endpoint that may be logged: neither its path nor a password in it.
pub(super) fn host(endpoint: &str) -> &str {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// Largest response in bytes. It lists the rejected spans.
const LARGEST_ANSWER: usize = 64 << 10;
