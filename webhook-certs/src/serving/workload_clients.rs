//! Optional client certificates of workloads.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use mesh::spiffe::{SpiffeError, SpiffeId};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring::default_provider;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::lifetime;
use crate::authority::Lifetime;
use crate::bundle::Bundle;

/// Verifier of client certificates by the roots of workloads, which may change.
///
/// A client without a certificate is accepted, because a workload that requests its first one
/// authenticates by a token. A certificate of another CA is rejected.
#[derive(Default)]
pub struct WorkloadClients {
    current: ArcSwapOption<Roots>,
}

struct Roots {
    bundle: Bundle,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl WorkloadClients {
    /// Verifier without roots, which rejects every certificate.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Verifies by `bundle` from the next handshake on.
    pub fn set(&self, bundle: &Bundle) -> Result<(), WorkloadRootsError> {
        if self.current.load().as_ref().is_some_and(|roots| roots.bundle == *bundle) {
            return Ok(());
        }
        let unusable = |reason: String| WorkloadRootsError { reason };
        let mut roots = RootCertStore::empty();
        for root in bundle.certificates() {
            roots.add(root.der().clone()).map_err(|error| unusable(error.to_string()))?;
        }
        let provider = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        self.current.store(Some(Arc::new(Roots { bundle: bundle.clone(), verifier })));
        Ok(())
    }
}

impl fmt::Debug for WorkloadClients {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let current = self.current.load();
        formatter
            .debug_tuple("WorkloadClients")
            .field(&current.as_ref().map(|r| &r.bundle))
            .finish()
    }
}

/// Identity in the certificate of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadIdentity {
    /// SPIFFE ID, the only URI in the certificate.
    pub id: SpiffeId,
    /// Validity of the certificate.
    pub lifetime: Lifetime,
}

impl WorkloadIdentity {
    /// Parses a certificate that was verified.
    pub fn from_der(certificate: &CertificateDer<'_>) -> Result<Self, WorkloadIdentityError> {
        let unreadable = |reason: String| WorkloadIdentityError::Certificate { reason };
        let lifetime = lifetime(certificate).map_err(|error| unreadable(error.to_string()))?;
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|error| unreadable(error.to_string()))?;
        let names = parsed.subject_alternative_name();
        let names = names.map_err(|error| unreadable(error.to_string()))?;
        let uris: Vec<_> = names
            .iter()
            .flat_map(|names| &names.value.general_names)
            .filter_map(|name| match name {
                GeneralName::URI(uri) => Some(*uri),
                _ => None,
            })
            .collect();
        match uris.as_slice() {
            [uri] => Ok(Self { id: SpiffeId::parse(uri)?, lifetime }),
            uris => Err(WorkloadIdentityError::Uris { found: uris.len() }),
        }
    }
}

/// Reason for which a certificate names no workload.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum WorkloadIdentityError {
    /// The certificate cannot be parsed.
    #[error("the client's certificate cannot be parsed: {reason}")]
    Certificate {
        /// Message of the parser.
        reason: String,
    },
    /// The certificate has no URI, or several.
    #[error("the client's certificate has {found} URIs; expected one, a SPIFFE ID")]
    Uris {
        /// Number of URIs.
        found: usize,
    },
    /// The URI is no identity of a workload.
    #[error("the client's certificate: {0}")]
    Id(#[from] SpiffeError),
}

/// Reason for which roots cannot verify clients.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the roots of workloads cannot verify clients: {reason}")]
pub struct WorkloadRootsError {
    /// Message of the verifier.
    pub reason: String,
}

impl ClientCertVerifier for WorkloadClients {
    /// No names: the roots may change while they are borrowed, and workloads have one certificate.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.current.load().as_ref() {
            Some(roots) => roots.verifier.verify_client_cert(leaf, intermediates, now),
            None => Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}
