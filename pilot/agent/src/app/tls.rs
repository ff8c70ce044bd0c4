//! TLS to the application. Like the kubelet in probes, it verifies no certificates.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::ProbeError;

/// TLS client that accepts every server certificate.
pub struct UnverifiedTls(TlsConnector);

impl std::fmt::Debug for UnverifiedTls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("UnverifiedTls")
    }
}

impl UnverifiedTls {
    /// Returns a client without a certificate of its own.
    pub fn new() -> Result<Self, TlsSetupError> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsSetupError)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate))
            .with_no_client_auth();
        config.enable_sni = false;
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Completes the handshake and returns the encrypted stream.
    pub async fn handshake(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, ProbeError> {
        // The name is only a form: neither sent nor verified.
        let unknown = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let address = stream.peer_addr().map_or(unknown, |peer| peer.ip());
        let name = ServerName::IpAddress(address.into());
        let shaken = self.0.connect(name, stream).await;
        shaken.map_err(|source| ProbeError::Tls { address, source })
    }
}

/// The TLS client cannot be set up.
#[derive(Debug, Error)]
#[error("setting up TLS for probes of the application")]
pub struct TlsSetupError(#[source] rustls::Error);

/// Accepts any certificate, and any signature by it.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
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
        // Nothing is verified, so ring need not know the scheme of the application's key.
        let mut schemes =
            ring::default_provider().signature_verification_algorithms.supported_schemes();
        schemes.push(SignatureScheme::ECDSA_NISTP521_SHA512);
        schemes
    }
}
