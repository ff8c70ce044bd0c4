//! TLS to the application. Like the kubelet in probes, it verifies no certificates.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Connects to any server.
pub(super) struct Unverified(TlsConnector);

impl std::fmt::Debug for Unverified {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Unverified")
    }
}

impl Unverified {
    pub(super) fn new() -> Result<Self> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .context("choosing versions of TLS")?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody))
            .with_no_client_auth();
        config.enable_sni = false;
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Completes the handshake and returns the encrypted stream.
    pub(super) async fn handshake(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>> {
        let peer = stream.peer_addr().context("the connection is gone")?;
        let name = ServerName::IpAddress(peer.ip().into());
        let shaken = self.0.connect(name, stream).await;
        shaken.with_context(|| format!("the TLS handshake with {peer}"))
    }
}

/// Accepts any certificate, and any signature by it.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
