//! Workload certificates, verified before they are served.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mesh::spiffe::SpiffeId;
use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};
use zeroize::Zeroizing;

use super::pem;
use super::schedule::{Lifetime, TOLERANCE};

/// A certificate chain with its private key.
pub struct WorkloadCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: Zeroizing<String>,
    lifetime: Lifetime,
}

impl WorkloadCertificate {
    /// Parses a certificate chain and its key, which must belong together.
    pub fn from_pem(
        chain: &[u8],
        key: Zeroizing<String>,
        received: SystemTime,
    ) -> Result<Self, CertificateError> {
        let chain = pem::parse_certificates(chain)
            .map_err(|reason| CertificateError::Parse { reason: reason.to_owned() })?;
        let leaf = chain.first().ok_or(CertificateError::Empty)?;
        let (not_before, not_after) = validity(leaf)?;
        if !key_belongs_to(&key, &chain)? {
            return Err(CertificateError::KeyMismatch);
        }
        Ok(Self { chain, key, lifetime: Lifetime { not_before, not_after, received } })
    }

    /// Verifies identity and validity, and the chain against trusted roots.
    pub fn verify(
        &self,
        identity: &SpiffeId,
        roots: &[CertificateDer<'static>],
        now: SystemTime,
    ) -> Result<(), CertificateError> {
        let Lifetime { not_before, not_after, .. } = self.lifetime;
        if now + TOLERANCE < not_before {
            return Err(CertificateError::NotYetValid { not_before, now });
        }
        if not_after < now {
            return Err(CertificateError::Expired { not_after, now });
        }
        let found = uri_names(self.leaf()?)?;
        let expected = identity.to_string();
        if found != [expected.as_str()] {
            let found = found.join(", ");
            return Err(CertificateError::Identity { found, expected });
        }
        self.verify_chain(roots, now)
    }

    /// Verifies the chain against trusted roots.
    pub fn verify_chain(
        &self,
        roots: &[CertificateDer<'static>],
        now: SystemTime,
    ) -> Result<(), CertificateError> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.iter().cloned());
        let verifier = WebPkiClientVerifier::builder_with_provider(
            Arc::new(store),
            Arc::new(default_provider()),
        )
        .build()
        .map_err(|_| CertificateError::NoRoots)?;
        let since_epoch = now.max(self.lifetime.not_before).duration_since(UNIX_EPOCH);
        let at = UnixTime::since_unix_epoch(since_epoch.unwrap_or_default());
        verifier
            .verify_client_cert(self.leaf()?, self.chain.get(1..).unwrap_or_default(), at)
            .map(drop)
            .map_err(|cause| CertificateError::Chain { cause })
    }

    /// The chain, leaf first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The chain as PEM, leaf first.
    pub fn chain_pem(&self) -> String {
        pem::certificates(&self.chain)
    }

    /// The private key as PEM.
    pub fn key_pem(&self) -> &Zeroizing<String> {
        &self.key
    }

    /// Returns chain and key for TLS; `None` for a key of an unknown algorithm.
    pub fn certified_key(&self) -> Option<CertifiedKey> {
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).ok()?;
        let key = default_provider().key_provider.load_private_key(key).ok()?;
        Some(CertifiedKey::new(self.chain.clone(), key))
    }

    /// Validity and receipt.
    pub fn lifetime(&self) -> &Lifetime {
        &self.lifetime
    }

    fn leaf(&self) -> Result<&CertificateDer<'static>, CertificateError> {
        self.chain.first().ok_or(CertificateError::Empty)
    }
}

impl fmt::Debug for WorkloadCertificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WorkloadCertificate")
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

/// Error of a certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The PEM text has no certificate.
    #[error("it has no certificate in PEM")]
    Empty,
    /// The PEM text or a certificate in it is invalid.
    #[error("it cannot be parsed: {reason}")]
    Parse {
        /// Message of the parser.
        reason: String,
    },
    /// The private key cannot be parsed.
    #[error("its private key cannot be parsed: {reason}")]
    Key {
        /// Message of the parser.
        reason: &'static str,
    },
    /// The private key belongs to another certificate.
    #[error("its private key belongs to another certificate")]
    KeyMismatch,
    /// The certificate names another identity.
    #[error("it is for \"{found}\", but this pod is {expected}")]
    Identity {
        /// URIs of the certificate.
        found: String,
        /// Identity of the pod.
        expected: String,
    },
    /// The validity of the certificate begins later.
    #[error(
        "it is valid from {} on, but the clock of this node shows {}: set the node's clock",
        utc(*not_before), utc(*now)
    )]
    NotYetValid {
        /// First instant of validity.
        not_before: SystemTime,
        /// The wall clock.
        now: SystemTime,
    },
    /// The validity of the certificate has ended.
    #[error("it expired at {}; the clock of this node shows {}", utc(*not_after), utc(*now))]
    Expired {
        /// Last instant of validity.
        not_after: SystemTime,
        /// The wall clock.
        now: SystemTime,
    },
    /// No trusted root can be parsed.
    #[error("it came without a root certificate")]
    NoRoots,
    /// The chain does not lead to a trusted root.
    #[error("its chain does not verify: {cause}")]
    Chain {
        /// Error of the verifier.
        cause: rustls::Error,
    },
}

/// Returns an instant as text, in UTC and whole seconds.
pub fn utc(instant: SystemTime) -> String {
    let at = OffsetDateTime::from(instant);
    format!("{} {:02}:{:02}:{:02} UTC", at.date(), at.hour(), at.minute(), at.second())
}

fn validity(leaf: &CertificateDer<'_>) -> Result<(SystemTime, SystemTime), CertificateError> {
    let parsed = parse(leaf)?;
    let validity = parsed.validity();
    let instant = |timestamp: i64| {
        let seconds = Duration::from_secs(u64::try_from(timestamp).unwrap_or_default());
        UNIX_EPOCH.checked_add(seconds).unwrap_or(UNIX_EPOCH)
    };
    Ok((instant(validity.not_before.timestamp()), instant(validity.not_after.timestamp())))
}

fn uri_names(leaf: &CertificateDer<'_>) -> Result<Vec<String>, CertificateError> {
    let parsed = parse(leaf)?;
    let names = parsed
        .subject_alternative_name()
        .map_err(|error| CertificateError::Parse { reason: error.to_string() })?;
    let names = names.map(|extension| extension.value.general_names.iter());
    Ok(names
        .into_iter()
        .flatten()
        .filter_map(|name| match name {
            GeneralName::URI(uri) => Some((*uri).to_owned()),
            _ => None,
        })
        .collect())
}

fn parse<'a>(leaf: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, CertificateError> {
    X509Certificate::from_der(leaf)
        .map(|(_, parsed)| parsed)
        .map_err(|error| CertificateError::Parse { reason: error.to_string() })
}

/// True unless the key certainly belongs to another certificate.
///
/// Envoy knows more algorithms than this program, so an unknown one is no mismatch.
fn key_belongs_to(key: &str, chain: &[CertificateDer<'static>]) -> Result<bool, CertificateError> {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|error| CertificateError::Key { reason: pem::describe(&error) })?;
    let Ok(key) = default_provider().key_provider.load_private_key(key) else {
        return Ok(true);
    };
    let certified = CertifiedKey::new(chain.to_vec(), key);
    Ok(!matches!(
        certified.keys_match(),
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch))
    ))
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
mod tests;
