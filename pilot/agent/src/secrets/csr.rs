//! Keys and certificate signing requests.

use std::fmt;

use mesh::spiffe::SpiffeId;
use rcgen::{
    CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PublicKeyData, SanType, SignatureAlgorithm,
};
use zeroize::Zeroizing;

use super::pem;
use crate::config::options::KeyAlgorithm;

/// A certificate signing request (PKCS #10) with its new key.
pub struct SigningRequest {
    /// The request as PEM.
    pub pem: String,
    /// The private key as PEM, overwritten in memory when it is dropped.
    pub key: Zeroizing<String>,
}

impl SigningRequest {
    /// Makes a key and a request for an identity.
    ///
    /// The key is PKCS #8 (`PRIVATE KEY`) or SEC 1 (`EC PRIVATE KEY`).
    pub fn new(
        identity: &SpiffeId,
        algorithm: KeyAlgorithm,
        pkcs8: bool,
    ) -> Result<Self, SigningRequestError> {
        let curve = Curve::from_algorithm(algorithm);
        let key = KeyPair::generate_for(curve.signature)
            .map(Zeroizing::new)
            .map_err(|cause| SigningRequestError::Key { cause })?;
        let request_error = |cause| SigningRequestError::Request { cause };
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        let uri = identity.to_string().as_str().try_into().map_err(request_error)?;
        parameters.subject_alt_names = vec![SanType::URI(uri)];
        let request = parameters.serialize_request(&*key).map_err(request_error)?;
        let pem = request.pem().map_err(request_error)?;
        let key = if pkcs8 {
            pem::encode("PRIVATE KEY", key.serialized_der())
        } else {
            let sec1 = curve.sec1(&key).ok_or(SigningRequestError::KeyForm)?;
            pem::encode("EC PRIVATE KEY", &sec1)
        };
        Ok(Self { pem, key })
    }
}

impl fmt::Debug for SigningRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SigningRequest").finish_non_exhaustive()
    }
}

/// Error of a signing request.
#[derive(Debug, thiserror::Error)]
pub enum SigningRequestError {
    /// The key could not be generated.
    #[error("cannot generate a private key: {cause}")]
    Key {
        /// Error of the certificate library.
        cause: rcgen::Error,
    },
    /// The request could not be built or signed.
    #[error("cannot make a certificate signing request: {cause}")]
    Request {
        /// Error of the certificate library.
        cause: rcgen::Error,
    },
    /// The generated key is not in the expected form.
    #[error("cannot write the private key in SEC 1 form: set PKCS8_KEY=true")]
    KeyForm,
}

/// An elliptic curve.
struct Curve {
    signature: &'static SignatureAlgorithm,
    /// DER of its object identifier.
    identifier: &'static [u8],
    /// Length of a private key.
    key_length: usize,
}

impl Curve {
    fn from_algorithm(algorithm: KeyAlgorithm) -> Self {
        match algorithm {
            KeyAlgorithm::EcdsaP256 => Self {
                signature: &PKCS_ECDSA_P256_SHA256,
                // 1.2.840.10045.3.1.7
                identifier: &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
                key_length: 32,
            },
            KeyAlgorithm::EcdsaP384 => Self {
                signature: &PKCS_ECDSA_P384_SHA384,
                // 1.3.132.0.34
                identifier: &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22],
                key_length: 48,
            },
        }
    }

    /// Returns the key as `ECPrivateKey` (RFC 5915) with the curve, which PKCS #8 has outside it.
    fn sec1(&self, key: &KeyPair) -> Option<Zeroizing<Vec<u8>>> {
        let private_key = self.private_key(key.serialized_der())?;
        let mut point = vec![0];
        point.extend_from_slice(key.der_bytes());
        let mut content = Zeroizing::new(Vec::with_capacity(ROOM));
        push(&mut content, INTEGER, &[1]);
        push(&mut content, OCTET_STRING, private_key);
        push(&mut content, CURVE, self.identifier);
        let mut public_key = Vec::new();
        push(&mut public_key, BIT_STRING, &point);
        push(&mut content, PUBLIC_KEY, &public_key);
        let mut sec1 = Zeroizing::new(Vec::with_capacity(ROOM));
        push(&mut sec1, SEQUENCE, &content);
        Some(sec1)
    }

    /// Returns the private number in a PKCS #8 document.
    fn private_key<'a>(&self, pkcs8: &'a [u8]) -> Option<&'a [u8]> {
        // `ECPrivateKey` begins with its version and an octet string of the curve's size.
        let length = u8::try_from(self.key_length).ok()?;
        let start = [INTEGER, 1, 1, OCTET_STRING, length];
        let at = pkcs8.windows(start.len()).position(|window| window == start)? + start.len();
        pkcs8.get(at..at + self.key_length)
    }
}

/// Appends a DER value of at most 255 bytes.
fn push(to: &mut Vec<u8>, tag: u8, content: &[u8]) {
    to.push(tag);
    let length = u8::try_from(content.len()).unwrap_or(u8::MAX);
    if length >= 0x80 {
        to.push(0x81);
    }
    to.push(length);
    to.extend_from_slice(content);
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
/// `[0]`, constructed.
const CURVE: u8 = 0xa0;
/// `[1]`, constructed.
const PUBLIC_KEY: u8 = 0xa1;
/// A P-384 key takes 167 bytes.
const ROOM: usize = 256;

#[cfg(test)]
mod tests {
    use rcgen::CertificateSigningRequestParams;
    use rustls::crypto::ring::sign::any_ecdsa_type;
    use rustls_pki_types::PrivateKeyDer;
    use rustls_pki_types::pem::PemObject;

    use super::*;

    fn identity() -> SpiffeId {
        SpiffeId::parse("spiffe://cluster.local/ns/shop/sa/web").unwrap()
    }

    #[test]
    fn request_has_the_identity_and_a_matching_key() {
        for algorithm in [KeyAlgorithm::EcdsaP256, KeyAlgorithm::EcdsaP384] {
            for pkcs8 in [true, false] {
                let request = SigningRequest::new(&identity(), algorithm, pkcs8).unwrap();
                let parsed = CertificateSigningRequestParams::from_pem(&request.pem).unwrap();
                let names = &parsed.params.subject_alt_names;
                assert!(
                    matches!(&names[..], [SanType::URI(uri)] if uri.as_str() == identity().to_string())
                );
                let key = PrivateKeyDer::from_pem_slice(request.key.as_bytes()).unwrap();
                assert_eq!(matches!(key, PrivateKeyDer::Pkcs8(_)), pkcs8);
                assert_eq!(matches!(key, PrivateKeyDer::Sec1(_)), !pkcs8);
                let public_key = any_ecdsa_type(&key).unwrap().public_key().unwrap().to_vec();
                assert_eq!(public_key, parsed.public_key.subject_public_key_info());
            }
        }
    }

    #[test]
    fn every_request_has_a_new_key() {
        let make = || SigningRequest::new(&identity(), KeyAlgorithm::EcdsaP256, true).unwrap();
        assert_ne!(make().key, make().key);
    }

    #[test]
    fn debug_output_hides_the_key() {
        let request = SigningRequest::new(&identity(), KeyAlgorithm::EcdsaP256, true).unwrap();
        assert_eq!(format!("{request:?}"), "SigningRequest { .. }");
    }
}
