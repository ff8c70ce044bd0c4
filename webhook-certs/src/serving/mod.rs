//! TLS configuration of a listener whose certificate can be replaced.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwapOption;
use jiff::{SignedDuration, Timestamp};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use self::tls_parameters::TlsParameters;
use crate::authority::{Leaf, Lifetime};
use crate::pem_error;

pub mod client_authority;
pub mod handshake_failure;
pub mod tcp_listener;
mod test_handshake;
pub mod tls_parameters;
pub mod workload_clients;

/// Source of a TLS listener's certificate, read at each handshake without a lock.
///
/// Handshakes fail until a certificate is set. It stays until another one replaces it.
#[derive(Default)]
pub struct ServingCertificate {
    current: ArcSwapOption<Identity>,
    /// Milliseconds by which this machine's clock is ahead of that of the clients.
    clock_ahead: AtomicI64,
}

impl ServingCertificate {
    /// Source without a certificate.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Serves `identity` from the next handshake on.
    pub fn set(&self, identity: Identity) {
        self.current.store(Some(Arc::new(identity)));
    }

    /// True if a certificate is set.
    pub fn is_loaded(&self) -> bool {
        self.current.load().is_some()
    }

    /// End of the certificate's validity.
    pub fn not_after(&self) -> Option<Timestamp> {
        self.current().map(|identity| identity.lifetime.not_after)
    }

    /// Sets the difference of this machine's clock to that of the clients.
    pub fn set_clock_ahead(&self, ahead: SignedDuration) {
        let milliseconds = i64::try_from(ahead.as_millis()).unwrap_or_default();
        self.clock_ahead.store(milliseconds, Ordering::Relaxed);
    }

    /// Converts an instant of this machine's clock to that of the clients.
    pub fn client_time(&self, now: Timestamp) -> Timestamp {
        let ahead = SignedDuration::from_millis(self.clock_ahead.load(Ordering::Relaxed));
        now.saturating_sub(ahead).unwrap_or(Timestamp::MAX)
    }

    /// True if a certificate is set and valid for clients at `now`, by this machine's clock.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        let now = self.client_time(now);
        self.current().is_some_and(|identity| identity.lifetime.contains(now))
    }

    /// Current certificate with its key.
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

/// Certificate chain with the key of its leaf.
#[derive(Clone)]
pub struct Identity {
    key: Arc<CertifiedKey>,
    lifetime: Lifetime,
}

impl Identity {
    /// Identity of a leaf that was minted in this process.
    pub fn from_leaf(leaf: &Leaf) -> Result<Self, IdentityError> {
        Self::from_der(vec![leaf.certificate().clone()], leaf.key())
    }

    /// Parses a chain, leaf first, and the leaf's key (PKCS#8, SEC 1 or PKCS#1) from PEM, and tests
    /// a handshake with them.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| IdentityError::Certificate { reason: pem_error::describe(&error) })?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| IdentityError::Key { reason: pem_error::describe(&error) })?;
        let identity = Self::from_der(chain, key)?;
        test_handshake::check_certificate(&identity)
            .map_err(|error| IdentityError::Handshake { reason: error.to_string() })?;
        Ok(identity)
    }

    /// Identity of a chain, leaf first, and the leaf's key.
    pub(crate) fn from_der(
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

    /// Chain, leaf first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }

    /// Validity of the leaf.
    pub fn lifetime(&self) -> Lifetime {
        self.lifetime
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Identity(until {})", self.lifetime.not_after)
    }
}

/// Reason for which a certificate and a key cannot be served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The chain cannot be parsed.
    #[error("not a certificate chain in PEM: {reason}")]
    Certificate {
        /// Message of the parser.
        reason: String,
    },
    /// The leaf is of an X.509 version without extensions.
    #[error(
        "the certificate is of version {version} of X.509; want version 3, with the name of the \
         Service as a subject alternative name"
    )]
    Version {
        /// X.509 version of the leaf.
        version: u32,
    },
    /// The key cannot be parsed or used.
    #[error("not a usable private key in PEM: {reason}")]
    Key {
        /// Message of the parser.
        reason: String,
    },
    /// Certificate and key do not belong together.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
    /// A handshake with the certificate fails.
    #[error("a handshake with it fails: {reason}")]
    Handshake {
        /// Error of the side that aborted.
        reason: String,
    },
}

/// TLS configuration of a webhook server for any client.
///
/// TLS 1.2 and 1.3, and only HTTP/1.1: API servers offer nothing else to a webhook
/// (kubernetes/kubernetes#75791), so a listener needs no HTTP/2.
pub fn server_config(certificate: Arc<ServingCertificate>) -> Arc<ServerConfig> {
    restricted_server_config(certificate, &TlsParameters::default(), None, &[HTTP_1])
}

/// TLS configuration with restricted parameters and clients, which offers `protocols` by ALPN.
///
/// With `clients`, a client certificate is requested, and no session is resumed: the client's
/// certificate may have become invalid since.
#[expect(clippy::expect_used, reason = "there is a suite for each version that is offered")]
pub fn restricted_server_config(
    certificate: Arc<ServingCertificate>,
    parameters: &TlsParameters,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    protocols: &[&str],
) -> Arc<ServerConfig> {
    let (provider, versions) = parameters.provider();
    let builder = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&versions)
        .expect("each version has a cipher suite");
    let resumes = clients.is_none();
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificate);
    if !resumes {
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
    }
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// ALPN name of HTTP/1.1.
pub const HTTP_1: &str = "http/1.1";
/// ALPN name of HTTP/2, which gRPC needs.
pub const HTTP_2: &str = "h2";

fn lifetime(leaf: &CertificateDer<'_>) -> Result<Lifetime, IdentityError> {
    let (_, parsed) = X509Certificate::from_der(leaf)
        .map_err(|error| IdentityError::Certificate { reason: error.to_string() })?;
    // Verifiers reject older versions, which have no subject alternative names.
    if parsed.version() != X509Version::V3 {
        return Err(IdentityError::Version { version: parsed.version().0.saturating_add(1) });
    }
    let instant = |seconds| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    Ok(Lifetime {
        not_before: instant(parsed.validity().not_before.timestamp()),
        not_after: instant(parsed.validity().not_after.timestamp()),
    })
}
