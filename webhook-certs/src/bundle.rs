//! Sets of trusted CA certificates: the content of a webhook's `caBundle`.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use crate::pem_error;

/// One CA certificate, with the parts that decide on trust.
///
/// Certificates are equal if their DER is.
#[derive(Clone, PartialEq, Eq)]
pub struct TrustedCa {
    der: CertificateDer<'static>,
    subject: Vec<u8>,
    name: String,
    common_name: String,
    public_key: Vec<u8>,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl TrustedCa {
    /// Parses a DER certificate; a certificate that is not a CA is an error.
    pub fn from_der(der: CertificateDer<'static>) -> Result<Self, BundleError> {
        let (rest, parsed) = X509Certificate::from_der(&der)
            .map_err(|error| BundleError::Certificate { reason: error.to_string() })?;
        if !rest.is_empty() {
            return Err(BundleError::Certificate {
                reason: "bytes follow the certificate".to_owned(),
            });
        }
        let name = parsed.subject().to_string();
        if !parsed.is_ca() {
            return Err(BundleError::NotCa { name });
        }
        Ok(Self {
            subject: parsed.subject().as_raw().to_vec(),
            common_name: common_name(&parsed),
            public_key: parsed.public_key().raw.to_vec(),
            not_before: instant(parsed.validity().not_before.timestamp()),
            not_after: instant(parsed.validity().not_after.timestamp()),
            name,
            der,
        })
    }

    /// The certificate as DER.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// Subject as text, for example `CN=sidecar-injector-ca 1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Common name of the subject; empty if it has none.
    pub fn common_name(&self) -> &str {
        &self.common_name
    }

    /// Number at the end of the common name, which differs between the CAs of an installation.
    pub fn generation(&self) -> Option<u64> {
        self.common_name.rsplit_once(' ')?.1.parse().ok()
    }

    /// Common name without that number, the same for all CAs of an installation.
    pub fn installation(&self) -> Option<&str> {
        self.common_name.rsplit_once(' ').map(|(installation, _)| installation)
    }

    /// The `SubjectPublicKeyInfo` as DER.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// The first instant at which the certificate is valid.
    pub fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// The last instant at which the certificate is valid.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// True if `now` lies in the certificate's validity.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// True if both certificates have the same subject and key, so that a leaf which verifies under
    /// one verifies under the other (RFC 5280, section 6.1).
    pub fn is_same_signer(&self, other: &Self) -> bool {
        self.subject == other.subject && self.public_key == other.public_key
    }
}

impl fmt::Debug for TrustedCa {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TrustedCa({} until {})", self.name, self.not_after)
    }
}

/// A set of CA certificates in a fixed order: first the signing one, then those in the Secret, then
/// others; at most [`Bundle::CAPACITY`].
///
/// The same set always gives the same bytes, so equal bundles are never written again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle(Vec<TrustedCa>);

impl Bundle {
    /// Maximum number of certificates; a rotation needs three.
    pub const CAPACITY: usize = 8;

    /// Makes the bundle of `first` and `others`.
    pub fn new(first: TrustedCa, others: impl IntoIterator<Item = TrustedCa>) -> Self {
        Self(vec![first]).with(others)
    }

    /// Parses every certificate of a PEM text, in its order; all of them must be CAs.
    pub fn parse(pem: &[u8]) -> Result<Self, BundleError> {
        let mut certificates = Vec::new();
        for der in CertificateDer::pem_slice_iter(pem) {
            let ca = TrustedCa::from_der(
                der.map_err(|error| BundleError::Pem { reason: pem_error::describe(&error) })?,
            )?;
            if !certificates.contains(&ca) {
                certificates.push(ca);
            }
        }
        if certificates.is_empty() {
            return Err(BundleError::Empty);
        }
        Ok(Self(certificates))
    }

    /// Parses the usable certificates of a `caBundle` of unknown origin.
    ///
    /// Like the API server's parser (Go, `CertPool.AppendCertsFromPEM`) it skips blocks that are
    /// not certificates. It also skips certificates that are not CAs, because no leaf of ours
    /// verifies under them.
    pub fn observed(pem: &[u8]) -> Self {
        let mut certificates = Vec::new();
        for ca in CertificateDer::pem_slice_iter(pem)
            .filter_map(Result::ok)
            .filter_map(|der| TrustedCa::from_der(der).ok())
        {
            if !certificates.contains(&ca) {
                certificates.push(ca);
            }
        }
        Self(certificates)
    }

    /// Adds missing certificates up to the capacity, those that expire last first.
    #[must_use]
    pub fn with(self, others: impl IntoIterator<Item = TrustedCa>) -> Self {
        let mut others: Vec<_> = others.into_iter().collect();
        others
            .sort_by(|one, other| (other.not_after, &*other.der).cmp(&(one.not_after, &*one.der)));
        self.followed_by(others)
    }

    /// Adds missing certificates up to the capacity, in the given order.
    #[must_use]
    pub fn followed_by(mut self, others: impl IntoIterator<Item = TrustedCa>) -> Self {
        for ca in others {
            if self.0.len() < Self::CAPACITY && !self.0.contains(&ca) {
                self.0.push(ca);
            }
        }
        self.0.truncate(Self::CAPACITY);
        self
    }

    /// Adds missing certificates without a limit, in the given order.
    #[must_use]
    pub fn joined<'a>(&self, others: impl IntoIterator<Item = &'a TrustedCa>) -> Self {
        let mut all = self.0.clone();
        for ca in others {
            if !all.contains(ca) {
                all.push(ca.clone());
            }
        }
        Self(all)
    }

    /// Certificates in order.
    pub fn certificates(&self) -> &[TrustedCa] {
        &self.0
    }

    /// True if the bundle holds no certificate.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the bundle holds every certificate of `other`, in any order.
    pub fn is_superset_of(&self, other: &Self) -> bool {
        other.0.iter().all(|ca| self.0.contains(ca))
    }

    /// True if both hold the same certificates, in any order.
    pub fn is_same_set(&self, other: &Self) -> bool {
        self.is_superset_of(other) && other.is_superset_of(self)
    }

    /// True if a leaf of `authority` verifies under this bundle at `now`.
    pub fn trusts(&self, authority: &TrustedCa, now: Timestamp) -> bool {
        self.0.iter().any(|ca| ca.is_same_signer(authority) && ca.is_valid_at(now))
    }

    /// Certificates that `known` does not hold.
    pub fn beyond<'a>(&'a self, known: &'a Self) -> impl Iterator<Item = &'a TrustedCa> {
        self.0.iter().filter(|ca| !known.0.contains(ca))
    }

    /// Bundle as PEM, one block after another.
    pub fn to_pem(&self) -> String {
        self.0.iter().map(|ca| pem(ca.der())).collect()
    }
}

/// Reason for which a text is not a bundle of trusted CAs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// The text is not PEM.
    #[error("not PEM: {reason}")]
    Pem {
        /// Message of the PEM parser.
        reason: String,
    },
    /// A PEM block is not an X.509 certificate.
    #[error("not an X.509 certificate: {reason}")]
    Certificate {
        /// Message of the certificate parser.
        reason: String,
    },
    /// A certificate is not a CA.
    #[error("the certificate `{name}` is not a CA")]
    NotCa {
        /// Subject of the certificate.
        name: String,
    },
    /// The text holds no certificate.
    #[error("no certificate in it")]
    Empty,
}

/// Parses the first certificate of a PEM text.
pub(crate) fn first_certificate(pem: &[u8]) -> Result<CertificateDer<'static>, BundleError> {
    match CertificateDer::pem_slice_iter(pem).next() {
        Some(Ok(der)) => Ok(der),
        Some(Err(error)) => Err(BundleError::Pem { reason: pem_error::describe(&error) }),
        None => Err(BundleError::Empty),
    }
}

/// Formats a certificate as PEM.
pub(crate) fn pem(der: &CertificateDer<'_>) -> String {
    pem_block("CERTIFICATE", der)
}

/// Formats bytes as PEM (RFC 7468).
pub(crate) fn pem_block(label: &str, bytes: &[u8]) -> String {
    let encoded = Zeroizing::new(STANDARD.encode(bytes));
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    // Reserved once: growing would leave copies of a key in freed memory.
    let lines = encoded.len() / PEM_LINE + 3;
    let mut text = String::with_capacity(begin.len() + encoded.len() + end.len() + lines);
    text.push_str(&begin);
    for (position, digit) in encoded.chars().enumerate() {
        if position % PEM_LINE == 0 {
            text.push('\n');
        }
        text.push(digit);
    }
    text.push('\n');
    text.push_str(&end);
    text.push('\n');
    text
}

/// X.509 has seconds, in years that a timestamp can express.
fn instant(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

fn common_name(certificate: &X509Certificate<'_>) -> String {
    let mut names = certificate.subject().iter_common_name();
    let first = names.next().and_then(|name| name.as_str().ok());
    first.unwrap_or_default().to_owned()
}

const PEM_LINE: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use jiff::SignedDuration;
    use proptest::prelude::*;

    use super::*;
    use crate::authority::{Authority, Entropy, Lifetime};
    use crate::server_names::ServerNames;

    /// More CAs than a bundle holds; those at higher positions expire later.
    static CAS: LazyLock<Vec<TrustedCa>> = LazyLock::new(|| {
        (1..=12)
            .map(|generation| {
                let lifetime = Lifetime::starting(
                    Timestamp::UNIX_EPOCH,
                    SignedDuration::from_hours(i64::try_from(generation).unwrap()),
                );
                Authority::create("test", generation, lifetime, Entropy::draw().unwrap())
                    .unwrap()
                    .ca()
                    .clone()
            })
            .collect()
    });

    fn cas(positions: &[usize]) -> Vec<TrustedCa> {
        positions.iter().map(|position| CAS[*position].clone()).collect()
    }

    #[test]
    fn first_ca_stays_first_and_others_are_sorted_by_expiry() {
        let bundle = Bundle::new(CAS[0].clone(), cas(&[3, 7, 0, 3, 5]));
        assert_eq!(bundle.certificates(), cas(&[0, 7, 5, 3]));
    }

    #[test]
    fn observed_skips_invalid_blocks_that_parse_rejects() {
        let good = pem(CAS[0].der());
        let garbage = pem_block("CERTIFICATE", b"garbage");
        let text = format!("words\n{garbage}{good}{good}");
        assert_eq!(Bundle::observed(text.as_bytes()).certificates(), cas(&[0]));
        assert!(matches!(Bundle::parse(text.as_bytes()), Err(BundleError::Certificate { .. })));
        assert_eq!(Bundle::parse(b""), Err(BundleError::Empty));
        assert!(Bundle::observed(b"").is_empty());
    }

    #[test]
    fn leaf_is_not_a_trusted_ca() {
        let names = ServerNames::parse(["a.b.svc"]).unwrap();
        let lifetime = Lifetime::starting(Timestamp::UNIX_EPOCH, SignedDuration::from_hours(1));
        let authority = Authority::create("test", 1, lifetime, Entropy::draw().unwrap()).unwrap();
        let leaf = authority.issue(&names, lifetime, Entropy::draw().unwrap()).unwrap();
        assert_eq!(
            TrustedCa::from_der(leaf.certificate().clone()),
            Err(BundleError::NotCa { name: "CN=a.b.svc".to_owned() })
        );
    }

    proptest! {
        #[test]
        fn order_of_input_does_not_matter(
            positions in prop::collection::vec(0_usize..12, 0..20),
        ) {
            let mut reversed = positions.clone();
            reversed.reverse();
            let bundle = Bundle::new(CAS[0].clone(), cas(&positions));
            prop_assert_eq!(&bundle, &Bundle::new(CAS[0].clone(), cas(&reversed)));
            prop_assert_eq!(&bundle, &bundle.clone().with(cas(&positions)));
            prop_assert!(bundle.certificates().len() <= Bundle::CAPACITY);
            prop_assert_eq!(&bundle.certificates()[0], &CAS[0]);
        }

        #[test]
        fn pem_round_trips(
            positions in prop::collection::vec(0_usize..12, 0..20),
        ) {
            let bundle = Bundle::new(CAS[1].clone(), cas(&positions));
            let text = bundle.to_pem();
            prop_assert_eq!(&Bundle::parse(text.as_bytes()).unwrap(), &bundle);
            prop_assert_eq!(&Bundle::observed(text.as_bytes()), &bundle);
        }

        #[test]
        fn known_and_beyond_are_the_whole_bundle(
            known in prop::collection::vec(0_usize..12, 0..3),
            others in prop::collection::vec(0_usize..12, 0..5),
        ) {
            let known = Bundle::new(CAS[0].clone(), cas(&known));
            let whole = known.clone().with(cas(&others));
            prop_assert!(whole.is_superset_of(&known));
            let beyond: Vec<_> = whole.beyond(&known).cloned().collect();
            prop_assert!(beyond.iter().all(|ca| !known.certificates().contains(ca)));
            prop_assert!(known.with(beyond).is_same_set(&whole));
        }

        #[test]
        fn observed_accepts_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            Bundle::observed(&bytes);
            Bundle::observed(pem_block("CERTIFICATE", &bytes).as_bytes());
        }
    }
}
