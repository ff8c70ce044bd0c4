//! Authentication of clients by certificate and name.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{lifetime, test_handshake};
use crate::authority::Lifetime;
use crate::pem_error;

/// CAs of clients, and the names that a client may have.
///
/// A CA alone is not enough: the cluster's CA has signed for every kubelet too.
#[derive(Clone, Debug)]
pub struct ClientAuthority {
    chains: Arc<dyn ClientCertVerifier>,
    names: ClientNames,
    lifetimes: Vec<Lifetime>,
}

impl ClientAuthority {
    /// Parses the CAs from PEM and tests a handshake up to the client's certificate.
    pub fn from_pem(authorities: &[u8], names: ClientNames) -> Result<Self, ClientAuthorityError> {
        let unreadable = |reason: String| ClientAuthorityError { reason };
        let mut roots = RootCertStore::empty();
        let mut lifetimes = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(authorities) {
            let certificate =
                certificate.map_err(|error| unreadable(pem_error::describe(&error)))?;
            lifetimes.push(lifetime(&certificate).map_err(|error| unreadable(error.to_string()))?);
            roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(unreadable("no certificate in it".to_owned()));
        }
        let provider = Arc::new(default_provider());
        let chains = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| unreadable(error.to_string()))?;
        let authority = Self { chains, names, lifetimes };
        test_handshake::check_client_authority(Arc::new(authority.clone()))
            .map_err(|error| unreadable(format!("a handshake with them fails: {error}")))?;
        Ok(authority)
    }

    /// True if at least one of the CAs is valid at `now`.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.lifetimes.iter().any(|lifetime| lifetime.contains(now))
    }
}

/// Reason for which a file is unusable as CAs of clients.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no CA certificates in PEM: {reason}")]
pub struct ClientAuthorityError {
    /// Message of the parser.
    pub reason: String,
}

/// Allowed names. A client's certificate needs one of them as its common name, which is
/// case-sensitive, or as a DNS name, which is not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientNames(Vec<String>);

impl ClientNames {
    /// Allowed names; `None` if the list is empty, which would admit no client.
    pub fn new(names: Vec<String>) -> Option<Self> {
        (!names.is_empty() && names.iter().all(|name| !name.is_empty())).then_some(Self(names))
    }

    fn allow(&self, certificate: &X509Certificate<'_>) -> bool {
        let mut common = certificate.subject().iter_common_name();
        if common.any(|name| name.as_str().is_ok_and(|name| self.0.iter().any(|n| n == name))) {
            return true;
        }
        let Ok(Some(alternative)) = certificate.subject_alternative_name() else { return false };
        alternative.value.general_names.iter().any(|name| match name {
            GeneralName::DNSName(name) => self.0.iter().any(|n| n.eq_ignore_ascii_case(name)),
            _ => false,
        })
    }
}

/// Error of a handshake with a trusted CA and a name that is not allowed.
pub(super) const NAME_REFUSED: Error =
    Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);

impl ClientCertVerifier for ClientAuthority {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.chains.verify_client_cert(leaf, intermediates, now)?;
        let (_, certificate) = X509Certificate::from_der(leaf)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        if self.names.allow(&certificate) { Ok(verified) } else { Err(NAME_REFUSED) }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
