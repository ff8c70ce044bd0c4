//! Handshakes in memory, which test a certificate before clients get it.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::ClientCertVerifier;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, ServerConfig,
    ServerConnection, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::tls_parameters::TlsParameters;
use super::{HTTP_1, Identity, ServingCertificate, restricted_server_config};
use crate::authority::{Authority, AuthorityError, Entropy, Lifetime};
use crate::server_names::ServerNames;

/// Tests a handshake with a client that trusts the certificate, whatever its name and validity.
///
/// TLS 1.3 is always offered, so other parameters make no difference.
pub(super) fn check_certificate(identity: &Identity) -> Result<(), TestHandshakeError> {
    fits(identity.chain().iter().map(|one| one.len()))?;
    let certificate = ServingCertificate::new();
    certificate.set(identity.clone());
    handshake(&restricted_server_config(certificate, &TlsParameters::default(), None, &[HTTP_1]))
}

/// Tests a handshake up to the client's certificate, which is missing.
pub(super) fn check_client_authority(
    clients: Arc<dyn ClientCertVerifier>,
) -> Result<(), TestHandshakeError> {
    fits(clients.root_hint_subjects().iter().map(|name| name.as_ref().len()))?;
    let certificate = ServingCertificate::new();
    certificate.set(made_up()?);
    let parameters = TlsParameters::default();
    match handshake(&restricted_server_config(certificate, &parameters, Some(clients), &[HTTP_1])) {
        Err(TestHandshakeError::Server(Error::NoCertificatesPresented)) => Ok(()),
        other => other,
    }
}

/// Reason for which a handshake in memory failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum TestHandshakeError {
    /// A message would exceed its maximum length.
    #[error("a message of {bytes} bytes exceeds the maximum of {}", ROOM)]
    TooLong {
        /// Length of all certificates, or of all names of CAs.
        bytes: usize,
    },
    /// The client aborted the handshake.
    #[error("error of the client: {0}")]
    Client(#[source] Error),
    /// The server aborted the handshake.
    #[error("error of the server: {0}")]
    Server(#[source] Error),
    /// Neither side sends anything.
    #[error("neither side sends anything")]
    Unfinished,
    /// No certificate could be made for the test.
    #[error(transparent)]
    Certificate(#[from] AuthorityError),
}

/// Rejects messages that are too long: rustls truncates their length field, and panics in debug
/// builds.
fn fits(lengths: impl Iterator<Item = usize>) -> Result<(), TestHandshakeError> {
    // Each item begins with its own length, in two or three bytes.
    let bytes = lengths.map(|length| length + 3).sum();
    if bytes > ROOM { Err(TestHandshakeError::TooLong { bytes }) } else { Ok(()) }
}

fn handshake(server: &Arc<ServerConfig>) -> Result<(), TestHandshakeError> {
    let name = ServerName::try_from("webhook").map_err(|_| TestHandshakeError::Unfinished)?;
    let mut client =
        ClientConnection::new(client_config()?, name).map_err(TestHandshakeError::Client)?;
    let mut server =
        ServerConnection::new(Arc::clone(server)).map_err(TestHandshakeError::Server)?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut request = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut request).map_err(|error| in_memory(&error))?;
        }
        let mut rest = request.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).map_err(|error| in_memory(&error))?;
            server.process_new_packets().map_err(TestHandshakeError::Server)?;
        }
        let mut answer = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut answer).map_err(|error| in_memory(&error))?;
        }
        if request.is_empty() && answer.is_empty() {
            return Err(TestHandshakeError::Unfinished);
        }
        let mut rest = answer.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).map_err(|error| in_memory(&error))?;
            client.process_new_packets().map_err(TestHandshakeError::Client)?;
        }
    }
    Ok(())
}

/// Error of a side that cannot buffer the other's messages.
fn in_memory(error: &io::Error) -> TestHandshakeError {
    TestHandshakeError::Client(Error::General(error.to_string()))
}

fn client_config() -> Result<Arc<ClientConfig>, TestHandshakeError> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TestHandshakeError::Client)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Temporary certificate for a test of the client's side.
fn made_up() -> Result<Identity, TestHandshakeError> {
    let lifetime = Lifetime {
        not_before: jiff::Timestamp::UNIX_EPOCH,
        not_after: jiff::Timestamp::UNIX_EPOCH,
    };
    let names = ServerNames::parse(["webhook"]).map_err(|_| TestHandshakeError::Unfinished)?;
    let authority = Authority::create("test-handshake", 1, lifetime, Entropy::draw()?)?;
    let leaf = authority.issue(&names, lifetime, Entropy::draw()?)?;
    Identity::from_leaf(&leaf).map_err(|_| TestHandshakeError::Unfinished)
}

/// Verifier that accepts every parsable certificate and verifies signatures.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Go parses the whole chain before it verifies any of it.
        if others.iter().any(|other| X509Certificate::from_der(other).is_err()) {
            return Err(Error::InvalidCertificate(CertificateError::BadEncoding));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &default_provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Maximum length of a certificate list that clients accept, and of a list of names.
const ROOM: usize = 0xffff;
