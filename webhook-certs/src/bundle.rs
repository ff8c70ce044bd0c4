//! Sets of trusted CA certificates: what a webhook's `caBundle` holds.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

/// One CA certificate, with the parts by which trust is judged.
///
/// Two certificates are equal when their DER is.
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
    /// Reads a DER certificate; anything that is not a CA is refused.
    pub fn from_der(der: CertificateDer<'static>) -> Result<Self, BundleError> {
        let (rest, parsed) =
            X509Certificate::from_der(&der).map_err(|error| BundleError::Certificate {
                reason: error.to_string(),
            })?;
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

    /// The subject for people to read, for example `CN=sidecar-injector-ca 1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The common name of the subject, empty where there is none.
    pub fn common_name(&self) -> &str {
        &self.common_name
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

    /// Tells whether `now` lies in the certificate's validity.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// Tells whether both certificates stand for one signer: the same subject and key, so that a
    /// leaf which verifies under one verifies under the other (RFC 5280, section 6.1).
    pub fn is_same_signer(&self, other: &Self) -> bool {
        self.subject == other.subject && self.public_key == other.public_key
    }
}

impl fmt::Debug for TrustedCa {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "TrustedCa({} until {})",
            self.name, self.not_after
        )
    }
}

/// Why bytes are not a bundle of trusted CAs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// The text is not PEM.
    #[error("not PEM: {reason}")]
    Pem {
        /// What the PEM reader stumbled over.
        reason: String,
    },
    /// A PEM block holds no X.509 certificate.
    #[error("not an X.509 certificate: {reason}")]
    Certificate {
        /// What the certificate reader stumbled over.
        reason: String,
    },
    /// A certificate is not allowed to sign others.
    #[error("the certificate `{name}` is not a CA")]
    NotCa {
        /// Its subject.
        name: String,
    },
    /// There is no certificate in the text.
    #[error("no certificate in it")]
    Empty,
}

/// Reads the first certificate of a PEM text.
pub(crate) fn first_certificate(pem: &[u8]) -> Result<CertificateDer<'static>, BundleError> {
    match CertificateDer::pem_slice_iter(pem).next() {
        Some(Ok(der)) => Ok(der),
        Some(Err(error)) => Err(BundleError::Pem {
            reason: error.to_string(),
        }),
        None => Err(BundleError::Empty),
    }
}

/// Writes a certificate as PEM.
pub(crate) fn pem(der: &CertificateDer<'_>) -> String {
    pem_block("CERTIFICATE", der)
}

/// Writes bytes as PEM (RFC 7468).
pub(crate) fn pem_block(label: &str, bytes: &[u8]) -> String {
    let encoded = Zeroizing::new(STANDARD.encode(bytes));
    // Never grows beyond this, so that no copy of a key is left behind in freed memory.
    let mut text = String::with_capacity(encoded.len() + encoded.len() / 64 + 2 * label.len() + 40);
    text.push_str(&format!("-----BEGIN {label}-----\n"));
    for line in encoded.as_bytes().chunks(64) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// X.509 writes times in seconds, within years that a timestamp holds.
fn instant(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

fn common_name(certificate: &X509Certificate<'_>) -> String {
    let mut names = certificate.subject().iter_common_name();
    let first = names.next().and_then(|name| name.as_str().ok());
    first.unwrap_or_default().to_owned()
}
