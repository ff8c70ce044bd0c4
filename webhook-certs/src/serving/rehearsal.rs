//! Handshakes in memory, with which a change is tried before clients meet it.

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

use super::client_authority::ClientAuthority;
use super::tls_parameters::TlsParameters;
use super::{Identity, ServingCertificate, restricted_server_config};
use crate::authority::{Authority, AuthorityError, Entropy, Lifetime};
use crate::server_names::ServerNames;

/// Tries a handshake with a client that trusts the certificate, whatever its name and validity.
///
/// TLS 1.3 is always offered, so what else may be negotiated makes no difference.
pub fn of_certificate(identity: &Identity) -> Result<(), RehearsalError> {
    fits(identity.chain().iter().map(|one| one.len()))?;
    let certificate = ServingCertificate::new();
    certificate.set(identity.clone());
    handshake(&restricted_server_config(certificate, &TlsParameters::default(), None))
}

/// Tries a handshake up to the client's certificate, which there is none of.
pub fn of_clients(clients: &ClientAuthority) -> Result<(), RehearsalError> {
    fits(clients.root_hint_subjects().iter().map(|name| name.as_ref().len()))?;
    let certificate = ServingCertificate::new();
    certificate.set(made_up()?);
    let parameters = TlsParameters::default();
    match handshake(&restricted_server_config(certificate, &parameters, Some(clients.clone()))) {
        Err(RehearsalError::Server(Error::NoCertificatesPresented)) => Ok(()),
        other => other,
    }
}

/// Reason for which a handshake in memory failed.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// A side could not even write it.
    #[error("it would have to hold {bytes} bytes, and there is room for {}", ROOM)]
    TooLong {
        /// The length of all certificates, or names of CAs.
        bytes: usize,
    },
    /// The client broke it off.
    #[error("the client says: {0}")]
    Client(#[source] Error),
    /// The server broke it off.
    #[error("the server says: {0}")]
    Server(#[source] Error),
    /// A side stopped talking.
    #[error("it comes to no end")]
    Unfinished,
    /// There is no certificate to try with.
    #[error(transparent)]
    Certificate(#[from] AuthorityError),
}

/// Rustls cuts off a length that does not fit into its field, and panics in builds with assertions.
fn fits(lengths: impl Iterator<Item = usize>) -> Result<(), RehearsalError> {
    // Each begins with its own length, in two or three bytes.
    let bytes = lengths.map(|length| length + 3).sum();
    if bytes > ROOM { Err(RehearsalError::TooLong { bytes }) } else { Ok(()) }
}

fn handshake(server: &Arc<ServerConfig>) -> Result<(), RehearsalError> {
    let name = ServerName::try_from("webhook").map_err(|_| RehearsalError::Unfinished)?;
    let mut client =
        ClientConnection::new(client_config()?, name).map_err(RehearsalError::Client)?;
    let mut server = ServerConnection::new(Arc::clone(server)).map_err(RehearsalError::Server)?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut request = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut request).map_err(|error| in_memory(&error))?;
        }
        let mut rest = request.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).map_err(|error| in_memory(&error))?;
            server.process_new_packets().map_err(RehearsalError::Server)?;
        }
        let mut answer = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut answer).map_err(|error| in_memory(&error))?;
        }
        if request.is_empty() && answer.is_empty() {
            return Err(RehearsalError::Unfinished);
        }
        let mut rest = answer.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).map_err(|error| in_memory(&error))?;
            client.process_new_packets().map_err(RehearsalError::Client)?;
        }
    }
    Ok(())
}

/// A side has no room for what the other one sends.
fn in_memory(error: &io::Error) -> RehearsalError {
    RehearsalError::Client(Error::General(error.to_string()))
}

fn client_config() -> Result<Arc<ClientConfig>, RehearsalError> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(RehearsalError::Client)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// A certificate for the side of the server where it is the other one that counts.
fn made_up() -> Result<Identity, RehearsalError> {
    let lifetime = Lifetime {
        not_before: jiff::Timestamp::UNIX_EPOCH,
        not_after: jiff::Timestamp::UNIX_EPOCH,
    };
    let names = ServerNames::parse(["webhook"]).map_err(|_| RehearsalError::Unfinished)?;
    let authority = Authority::create("rehearsal", 1, lifetime, Entropy::draw()?)?;
    let leaf = authority.issue(&names, lifetime, Entropy::draw()?)?;
    Identity::from_leaf(&leaf).map_err(|_| RehearsalError::Unfinished)
}

/// Accepts every certificate that can be read; signatures are verified.
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
        // Go reads the whole chain before it verifies any of it.
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

/// The most that clients take as one message of a handshake; a list of names has no longer length.
const ROOM: usize = 0xffff;
