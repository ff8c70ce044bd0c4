//! The certificate that a TLS listener presents, swapped while it serves.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwapOption;
use jiff::{SignedDuration, Timestamp};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use self::client_authority::ClientAuthority;
use self::tls_parameters::TlsParameters;
use crate::authority::{Leaf, Lifetime};
use crate::pem_error;

pub mod client_authority;
pub mod handshake_failure;
pub mod rehearsal;
pub mod tls_parameters;

/// The place from which a TLS listener takes its certificate at each handshake.
///
/// It starts empty; while it is, handshakes fail. A certificate that was set stays until another
/// one replaces it. Reading it takes no lock.
#[derive(Default)]
pub struct ServingCertificate {
    current: ArcSwapOption<Identity>,
    /// How many milliseconds this machine's clock is ahead of the one that counts.
    clock_ahead: AtomicI64,
}

impl ServingCertificate {
    /// Makes an empty place.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Presents `identity` from the next handshake on.
    pub fn set(&self, identity: Identity) {
        self.current.store(Some(Arc::new(identity)));
    }

    /// Tells whether there is a certificate to present.
    pub fn is_loaded(&self) -> bool {
        self.current.load().is_some()
    }

    /// The last instant at which the present certificate is valid.
    pub fn not_after(&self) -> Option<Timestamp> {
        self.current().map(|identity| identity.lifetime.not_after)
    }

    /// Tells how far this machine's clock is ahead of that of whoever verifies the certificate.
    pub fn set_clock_ahead(&self, ahead: SignedDuration) {
        let milliseconds = i64::try_from(ahead.as_millis()).unwrap_or_default();
        self.clock_ahead.store(milliseconds, Ordering::Relaxed);
    }

    /// Tells whether there is a certificate, and `now`, by this machine's clock, lies in its
    /// validity for whoever verifies it.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        let ahead = SignedDuration::from_millis(self.clock_ahead.load(Ordering::Relaxed));
        let now = now.saturating_sub(ahead).unwrap_or(Timestamp::MAX);
        self.current().is_some_and(|identity| identity.lifetime.contains(now))
    }

    /// The present certificate with its key.
    pub fn current(&self) -> Option<Arc<Identity>> {
        self.current.load_full()
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load().as_ref().map(|identity| Arc::clone(&identity.key))
    }
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.not_after() {
            Some(not_after) => write!(formatter, "ServingCertificate(until {not_after})"),
            None => write!(formatter, "ServingCertificate(none)"),
        }
    }
}

/// A certificate chain and the key that belongs to its first certificate.
#[derive(Clone)]
pub struct Identity {
    key: Arc<CertifiedKey>,
    lifetime: Lifetime,
}

impl Identity {
    /// Takes a leaf that was minted in this process.
    pub fn from_leaf(leaf: &Leaf) -> Result<Self, IdentityError> {
        Self::from_der(vec![leaf.certificate().clone()], leaf.key())
    }

    /// Reads a chain, leaf first, and the leaf's key (PKCS#8, SEC 1 or PKCS#1) from PEM, with which
    /// a client comes to the end of a handshake.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| IdentityError::Certificate { reason: pem_error::describe(&error) })?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| IdentityError::Key { reason: pem_error::describe(&error) })?;
        let identity = Self::from_der(chain, key)?;
        rehearsal::of_certificate(&identity)
            .map_err(|error| IdentityError::Handshake { reason: error.to_string() })?;
        Ok(identity)
    }

    fn from_der(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, IdentityError> {
        let leaf = chain.first().ok_or_else(|| IdentityError::Certificate {
            reason: "no certificate in it".to_owned(),
        })?;
        let lifetime = lifetime(leaf)?;
        let key =
            CertifiedKey::from_der(chain, key, &default_provider()).map_err(
                |error| match error {
                    rustls::Error::InconsistentKeys(_) => IdentityError::Mismatch,
                    rustls::Error::InvalidCertificate(error) => {
                        IdentityError::Certificate { reason: error.to_string() }
                    }
                    error => IdentityError::Key { reason: error.to_string() },
                },
            )?;
        Ok(Self { key: Arc::new(key), lifetime })
    }

    /// The chain that is presented, leaf first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }

    /// When the leaf is valid.
    pub fn lifetime(&self) -> Lifetime {
        self.lifetime
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Identity(until {})", self.lifetime.not_after)
    }
}

/// Why a certificate and a key cannot be served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The chain cannot be read.
    #[error("not a certificate chain in PEM: {reason}")]
    Certificate {
        /// What the reader stumbled over.
        reason: String,
    },
    /// The leaf is of a version of X.509 without extensions.
    #[error(
        "the certificate is of version {version} of X.509; want version 3, with the name of the \
         Service as a subject alternative name"
    )]
    Version {
        /// The version.
        version: u32,
    },
    /// The key cannot be read or used.
    #[error("not a usable private key in PEM: {reason}")]
    Key {
        /// What the reader stumbled over.
        reason: String,
    },
    /// Both are fine, but not of one pair.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
    /// No client would come to the end of a handshake.
    #[error("a handshake with it fails: {reason}")]
    Handshake {
        /// The error of the side that broke it off.
        reason: String,
    },
}

/// Builds the TLS side of a webhook server that takes any client.
///
/// TLS 1.2 and 1.3, and HTTP/1.1 alone: API servers offer nothing else to a webhook
/// (kubernetes/kubernetes#75791), so a listener needs no HTTP/2.
pub fn server_config(certificate: Arc<ServingCertificate>) -> Arc<ServerConfig> {
    restricted_server_config(certificate, &TlsParameters::default(), None)
}

/// As [`server_config`], with what is negotiated and who may connect restricted.
///
/// With `clients`, a client without a certificate of theirs is refused, and no session is resumed:
/// a resumed one would be that of a client whose certificate may no longer count.
#[expect(clippy::expect_used, reason = "there is a suite for each version that is offered")]
pub fn restricted_server_config(
    certificate: Arc<ServingCertificate>,
    parameters: &TlsParameters,
    clients: Option<ClientAuthority>,
) -> Arc<ServerConfig> {
    let (provider, versions) = parameters.provider();
    let builder = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&versions)
        .expect("each version has a cipher suite");
    let resumes = clients.is_none();
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(Arc::new(clients)),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificate);
    if !resumes {
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
    }
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

fn lifetime(leaf: &CertificateDer<'_>) -> Result<Lifetime, IdentityError> {
    let (_, parsed) = X509Certificate::from_der(leaf)
        .map_err(|error| IdentityError::Certificate { reason: error.to_string() })?;
    // Verifiers take no other, since older ones have no subject alternative names.
    if parsed.version() != X509Version::V3 {
        return Err(IdentityError::Version { version: parsed.version().0.saturating_add(1) });
    }
    let instant = |seconds| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    Ok(Lifetime {
        not_before: instant(parsed.validity().not_before.timestamp()),
        not_after: instant(parsed.validity().not_after.timestamp()),
    })
}
