//! Handshakes of the listener with TLS.

use std::fmt;
use std::io;
use std::sync::Arc;

use http::Extensions;
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use webhook_certs::serving::workload_clients::WorkloadIdentity;

use super::Presented;
use crate::listener::Accept;

/// Connections with TLS, whose clients may present a certificate.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// Accepts by a configuration that verifies certificates of clients.
    pub fn new(config: Arc<ServerConfig>) -> Self {
        Self(config.into())
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Accept for Tls {
    type Stream = TlsStream<TcpStream>;

    async fn accept(
        &self,
        tcp: TcpStream,
        extensions: &mut Extensions,
    ) -> io::Result<Self::Stream> {
        let stream = self.0.accept(tcp).await?;
        let chain = stream.get_ref().1.peer_certificates();
        if let Some(leaf) = chain.and_then(<[_]>::first) {
            extensions.insert(Presented(WorkloadIdentity::from_der(leaf)));
        }
        Ok(stream)
    }
}
