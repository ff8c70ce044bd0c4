//! The webhook's CA and the leaves that it signs.
//!
//! No function reads the clock: every instant is an argument. Randomness comes from two places
//! only, [`Entropy::draw`] and the nonces inside signatures.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, SerialNumber,
};
use rustls::crypto::ring::default_provider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::bundle::{self, BundleError, TrustedCa};
use crate::pem_error;
use crate::server_names::ServerNames;

/// A CA certificate together with its private key.
#[derive(Clone)]
pub struct Authority {
    ca: TrustedCa,
    key: Arc<KeyPair>,
}

impl Authority {
    /// Makes a self-signed CA: ECDSA P-256, path length 0, its own subject per generation.
    ///
    /// Subjects differ between generations because Go's verifier otherwise blames the wrong
    /// candidate in its message.
    pub fn create(
        install: &str,
        generation: u64,
        lifetime: Lifetime,
        entropy: Entropy,
    ) -> Result<Self, AuthorityError> {
        let subject = common_name(&format!("{install}-ca {generation}"));
        Self::self_signed(subject, Arc::new(entropy.key), entropy.serial, lifetime)
    }

    /// Makes a new certificate for the same key and subject.
    ///
    /// Leaves of either certificate verify under both, so this extends the life of a CA without
    /// any moment in which a leaf is not trusted.
    pub fn renewed(&self, lifetime: Lifetime, entropy: Entropy) -> Result<Self, AuthorityError> {
        let subject = common_name(self.ca.common_name());
        let renewed = Self::self_signed(subject, Arc::clone(&self.key), entropy.serial, lifetime)?;
        if renewed.ca.is_same_signer(&self.ca) {
            Ok(renewed)
        } else {
            // Only CAs that another program made have more than a common name in their subject.
            Err(AuthorityError::ForeignSubject { name: self.ca.name().to_owned() })
        }
    }

    /// Parses a CA certificate and its PKCS#8 key, which must belong together.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, AuthorityError> {
        let der = bundle::first_certificate(certificate).map_err(AuthorityError::Certificate)?;
        let ca = TrustedCa::from_der(der).map_err(AuthorityError::Certificate)?;
        let key = PrivatePkcs8KeyDer::from_pem_slice(key)
            .map_err(|error| AuthorityError::Key { reason: pem_error::describe(&error) })?;
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ECDSA_P256_SHA256)
            .map_err(|error| AuthorityError::Key { reason: error.to_string() })?;
        if rcgen::PublicKeyData::subject_public_key_info(&key) != ca.public_key() {
            return Err(AuthorityError::KeyMismatch { name: ca.name().to_owned() });
        }
        Ok(Self { ca, key: Arc::new(key) })
    }

    /// The CA certificate.
    pub fn ca(&self) -> &TrustedCa {
        &self.ca
    }

    /// The certificate as PEM.
    pub fn certificate_pem(&self) -> String {
        bundle::pem(self.ca.der())
    }

    /// The private key as PKCS#8 PEM, overwritten in memory when it is dropped.
    pub fn key_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(self.key.serialize_pem())
    }

    /// Signs a leaf for `names`; the leaf does not outlive the CA.
    pub fn issue(
        &self,
        names: &ServerNames,
        lifetime: Lifetime,
        entropy: Entropy,
    ) -> Result<Leaf, AuthorityError> {
        let spread = entropy.spread;
        let issuer = Issuer::from_ca_cert_der(self.ca.der(), self.key.as_ref())
            .map_err(|source| AuthorityError::Sign { source })?;
        let lifetime = Lifetime {
            not_before: lifetime.not_before,
            not_after: lifetime.not_after.min(self.ca.not_after()),
        };
        let mut parameters = parameters(common_name(&names.first()), entropy.serial, lifetime)?;
        parameters.subject_alt_names = alternative_names(names)?;
        parameters.is_ca = IsCa::ExplicitNoCa;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        parameters.use_authority_key_identifier_extension = true;
        let certificate = parameters
            .signed_by(&entropy.key, &issuer)
            .map_err(|source| AuthorityError::Sign { source })?;
        Ok(Leaf {
            certificate: certificate.into(),
            key: Zeroizing::new(entropy.key.serialize_der()),
            lifetime,
            names: names.clone(),
            issuer: self.ca.clone(),
            spread,
        })
    }

    fn self_signed(
        subject: DistinguishedName,
        key: Arc<KeyPair>,
        serial: SerialNumber,
        lifetime: Lifetime,
    ) -> Result<Self, AuthorityError> {
        let mut parameters = parameters(subject, serial, lifetime)?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        parameters.use_authority_key_identifier_extension = true;
        let certificate = parameters
            .self_signed(key.as_ref())
            .map_err(|source| AuthorityError::Sign { source })?;
        let ca = TrustedCa::from_der(certificate.into()).map_err(AuthorityError::Certificate)?;
        Ok(Self { ca, key })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Authority({:?})", self.ca)
    }
}

/// Authorities are equal if their certificates are: the key belongs to the certificate.
impl PartialEq for Authority {
    fn eq(&self, other: &Self) -> bool {
        self.ca == other.ca
    }
}

impl Eq for Authority {}

/// A serving certificate with its key, in memory.
#[derive(Clone)]
pub struct Leaf {
    certificate: CertificateDer<'static>,
    key: Zeroizing<Vec<u8>>,
    lifetime: Lifetime,
    names: ServerNames,
    issuer: TrustedCa,
    spread: u8,
}

impl Leaf {
    /// The certificate as DER.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The certificate as PEM.
    pub fn certificate_pem(&self) -> String {
        bundle::pem(&self.certificate)
    }

    /// The private key as PKCS#8.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.to_vec()).into()
    }

    /// The private key as PKCS#8 PEM, overwritten in memory when it is dropped.
    pub fn key_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(bundle::pem_block("PRIVATE KEY", &self.key))
    }

    /// Validity of the certificate.
    pub fn lifetime(&self) -> Lifetime {
        self.lifetime
    }

    /// Names in the certificate.
    pub fn names(&self) -> &ServerNames {
        &self.names
    }

    /// Instant of renewal: half of the lifetime, give or take a tenth, so that replicas which
    /// started together do not renew together.
    pub fn renew_at(&self) -> Timestamp {
        let start = self.lifetime.issued().as_second();
        let span = (self.lifetime.not_after.as_second() - start).max(0);
        let percent = 45 + i64::from(self.spread) * 10 / i64::from(u8::MAX);
        Timestamp::from_second(start + span / 100 * percent + span % 100 * percent / 100)
            .unwrap_or(self.lifetime.not_after)
    }

    /// CA that signed the leaf.
    pub fn issuer(&self) -> &TrustedCa {
        &self.issuer
    }
}

impl fmt::Debug for Leaf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { names, lifetime, issuer, .. } = self;
        write!(formatter, "Leaf({names} until {} by {issuer:?})", lifetime.not_after)
    }
}

/// The validity of a certificate, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The first instant at which it is valid.
    pub not_before: Timestamp,
    /// The last instant at which it is valid.
    pub not_after: Timestamp,
}

impl Lifetime {
    /// Starts an hour before `now`, for clients whose clock is behind, and ends `duration` after
    /// `now`.
    pub fn starting(now: Timestamp, duration: SignedDuration) -> Self {
        let second = |at: Timestamp| Timestamp::from_second(at.as_second()).unwrap_or(at);
        Self {
            not_before: second(now.saturating_sub(BACKDATED).unwrap_or(Timestamp::MIN)),
            not_after: second(now.saturating_add(duration).unwrap_or(Timestamp::MAX)),
        }
    }

    /// True if `now` lies in the validity.
    pub fn contains(&self, now: Timestamp) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// Instant at which this crate made the certificate.
    pub fn issued(&self) -> Timestamp {
        self.not_before.saturating_add(BACKDATED).unwrap_or(self.not_before)
    }
}

/// Randomness of one certificate: a key pair, a serial number, and the spread of its renewal.
pub struct Entropy {
    key: KeyPair,
    serial: SerialNumber,
    spread: u8,
}

impl Entropy {
    /// Draws from the system's random generator.
    pub fn draw() -> Result<Self, AuthorityError> {
        let mut spread = [0];
        default_provider().secure_random.fill(&mut spread).map_err(|_| AuthorityError::Random)?;
        let [spread] = spread;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
            .map_err(|source| AuthorityError::Sign { source })?;
        Ok(Self { key, serial: draw_serial()?, spread })
    }

    /// Makes a certificate signing request for a leaf.
    pub fn request(self, names: &ServerNames) -> Result<LeafRequest, AuthorityError> {
        let sign = |source| AuthorityError::Sign { source };
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = common_name(&names.first());
        parameters.subject_alt_names = alternative_names(names)?;
        let request = parameters.serialize_request(&self.key).map_err(sign)?;
        Ok(LeafRequest {
            pem: request.pem().map_err(sign)?,
            key: Zeroizing::new(self.key.serialize_pem()),
            spread: self.spread,
        })
    }
}

/// A certificate signing request (PKCS#10) for a leaf, with its key.
#[derive(Clone)]
pub struct LeafRequest {
    /// The request as PEM.
    pub pem: String,
    /// The private key as PKCS#8 PEM, overwritten in memory when it is dropped.
    pub key: Zeroizing<String>,
    /// Spread of the renewal, of 255.
    pub spread: u8,
}

/// Reason for which a certificate cannot be made or parsed.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The certificate is not a CA certificate.
    #[error("the CA certificate cannot be used: {0}")]
    Certificate(#[source] BundleError),
    /// The private key cannot be parsed.
    #[error("the CA key is not an ECDSA P-256 key in PKCS#8 PEM: {reason}")]
    Key {
        /// Message of the parser.
        reason: String,
    },
    /// The key of a mounted CA cannot be parsed, or cannot sign.
    #[error("the CA key cannot be used: {reason}")]
    MountedKey {
        /// Message of the parser.
        reason: String,
    },
    /// Key and certificate do not belong together.
    #[error("the CA key does not belong to the certificate `{name}`")]
    KeyMismatch {
        /// The subject of the certificate.
        name: String,
    },
    /// The subject has parts that this program does not write.
    #[error("the CA `{name}` was made by another program and cannot be renewed")]
    ForeignSubject {
        /// The subject of the certificate.
        name: String,
    },
    /// The certificate could not be built or signed.
    #[error("cannot sign a certificate: {source}")]
    Sign {
        /// Message of the certificate library.
        source: rcgen::Error,
    },
    /// X.509 cannot express the instant.
    #[error("a certificate cannot express the instant {instant}")]
    Instant {
        /// The instant.
        instant: Timestamp,
    },
    /// The system's random generator failed.
    #[error("the system's random generator failed")]
    Random,
}

/// Draws a serial number from the system's random generator.
pub(crate) fn draw_serial() -> Result<SerialNumber, AuthorityError> {
    let mut serial = [0; SERIAL_BYTES];
    default_provider().secure_random.fill(&mut serial).map_err(|_| AuthorityError::Random)?;
    // DER integers are signed and have no leading zeros: keep the serial positive at full length.
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&serial))
}

/// Parameters of a certificate without names and usages.
pub(crate) fn parameters(
    subject: DistinguishedName,
    serial: SerialNumber,
    lifetime: Lifetime,
) -> Result<CertificateParams, AuthorityError> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = subject;
    parameters.serial_number = Some(serial);
    parameters.not_before = date(lifetime.not_before)?;
    parameters.not_after = date(lifetime.not_after)?;
    Ok(parameters)
}

/// Subject with a common name alone.
pub(crate) fn common_name(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject
}

/// Names of a server as subject alternative names.
pub(crate) fn alternative_names(names: &ServerNames) -> Result<Vec<SanType>, AuthorityError> {
    names
        .iter()
        .map(|name| match name {
            ServerName::IpAddress(address) => Ok(SanType::IpAddress((*address).into())),
            other => other
                .to_str()
                .into_owned()
                .try_into()
                .map(SanType::DnsName)
                .map_err(|source| AuthorityError::Sign { source }),
        })
        .collect()
}

fn date(instant: Timestamp) -> Result<OffsetDateTime, AuthorityError> {
    OffsetDateTime::from_unix_timestamp(instant.as_second())
        .map_err(|_| AuthorityError::Instant { instant })
}

/// Clock differences between seconds and more than half an hour have been reported.
const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

const SERIAL_BYTES: usize = 16;
