//! Probes and lifecycle handlers of the application, sent on the kubelet's behalf.

mod dial;
mod grpc;
mod http_get;
mod location;
mod redirect;
mod table;
mod tls;

use std::net::IpAddr;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::HeaderValue;
use hyper::{HeaderMap, StatusCode};
use thiserror::Error;

pub use dial::Dialer;
pub use grpc::HealthError;
pub use http_get::Scheme;
pub(crate) use location::escape;
pub use redirect::redirect_within;
pub use table::{EntryError, ProbeTable, ProbeTableError};
pub use tls::{TlsSetupError, UnverifiedTls};

use table::{Action, Entry};

/// Client of the application, with the probes and handlers that it may send.
#[derive(Debug)]
pub struct App {
    table: ProbeTable,
    dialer: Dialer,
    tls: UnverifiedTls,
}

/// The application's answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AppAnswer {
    /// Status for the kubelet.
    pub status: StatusCode,
    /// `Content-Type` of the body.
    pub content_type: Option<HeaderValue>,
    /// First 10 KiB of the body.
    pub body: Bytes,
}

impl App {
    /// Returns the application beside this agent.
    pub fn new(table: ProbeTable, dialer: Dialer) -> Result<Self, TlsSetupError> {
        Ok(Self { table, dialer, tls: UnverifiedTls::new()? })
    }

    /// Sends the probe or handler of `path`, with the headers of the kubelet's own request. Returns
    /// `None` for a path without an entry.
    pub async fn send(
        &self,
        path: &str,
        kubelet: &HeaderMap,
    ) -> Option<Result<AppAnswer, ProbeError>> {
        let entry = self.table.get(path)?;
        let act = self.act(entry, kubelet);
        let Some(timeout) = entry.timeout else { return Some(act.await) };
        let answer = tokio::time::timeout(timeout, act).await;
        let action = || entry.action.to_string();
        Some(
            answer
                .unwrap_or_else(|_| Err(ProbeError::Timeout { action: action(), after: timeout })),
        )
    }

    async fn act(&self, entry: &Entry, kubelet: &HeaderMap) -> Result<AppAnswer, ProbeError> {
        match &entry.action {
            Action::Http(get) => get.send(&self.dialer, &self.tls, kubelet).await,
            Action::Tcp { host, port } => {
                self.dialer.connect(host.as_deref(), *port).await.map(|_| AppAnswer::ok())
            }
            Action::Grpc { port, service } => {
                grpc::check(&self.dialer, *port, service).await.map(|()| AppAnswer::ok())
            }
        }
    }
}

impl AppAnswer {
    fn ok() -> Self {
        Self { status: StatusCode::OK, content_type: None, body: Bytes::new() }
    }
}

/// Probe without an answer, or failed health check.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// No connection.
    #[error("connecting to {address} failed")]
    Connect {
        /// Host and port.
        address: String,
        /// Error of the kernel or the resolver.
        source: std::io::Error,
    },
    /// Failed TLS handshake.
    #[error("the TLS handshake with {address} failed")]
    Tls {
        /// Address of the application.
        address: IpAddr,
        /// Error of the handshake.
        source: std::io::Error,
    },
    /// Broken connection or invalid response.
    #[error("GET {path} at {address} failed")]
    Exchange {
        /// Path of the request.
        path: String,
        /// Host and port.
        address: String,
        /// Error of the HTTP client.
        source: hyper::Error,
    },
    /// Too many redirects.
    #[error("stopped after {limit} redirects")]
    Redirects {
        /// Limit of requests.
        limit: usize,
    },
    /// Redirect to text that is no URL of HTTP.
    #[error("the application redirects to an invalid URL; hint: expected one of http or https")]
    Location,
    /// Failed gRPC health check.
    #[error("health check of the gRPC service {service:?} at port {port} failed")]
    Health {
        /// Name of the service; empty for the server.
        service: String,
        /// Port of the server.
        port: u16,
        /// Reason of the failure.
        source: HealthError,
    },
    /// No answer within the probe's timeout.
    #[error("{action}: no answer within {} s", after.as_secs())]
    Timeout {
        /// The probe.
        action: String,
        /// The timeout.
        after: Duration,
    },
}

#[cfg(test)]
mod tests;
