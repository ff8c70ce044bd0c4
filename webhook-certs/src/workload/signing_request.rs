//! Certificate signing requests of workloads (PKCS #10, RFC 2986).

use rcgen::{
    CertificateSigningRequestParams, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PKCS_RSA_SHA256, PublicKeyData, SignatureAlgorithm,
};
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject;
use thiserror::Error;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::oid_registry::{OID_EC_P256, OID_NIST_EC_P384};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::pem_error;

/// Public key of a request whose signature is valid.
#[derive(Clone, Debug)]
pub struct SigningRequest {
    public_key: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
}

impl SigningRequest {
    /// Parses a request from PEM and verifies that its key signed it. RSA keys have 2048 to 4096
    /// bits, ECDSA keys are on P-256 or P-384. Everything else in the request is ignored.
    pub fn parse(pem: &str) -> Result<Self, SigningRequestError> {
        if pem.len() > MAX_SIZE {
            return Err(SigningRequestError::Size { size: pem.len() });
        }
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| SigningRequestError::Pem { reason: pem_error::describe(&error) })?;
        let (_, request) = X509CertificationRequest::from_der(&der)
            .map_err(|error| SigningRequestError::Der { reason: error.to_string() })?;
        let key = &request.certification_request_info.subject_pki;
        let algorithm = algorithm(key).ok_or(SigningRequestError::Key)?;
        // rcgen verifies the signature. The algorithm that it returns is that of the signature,
        // whose curve may differ from the key's.
        CertificateSigningRequestParams::from_der(&der)
            .map_err(|cause| SigningRequestError::Invalid { cause })?;
        Ok(Self { public_key: key.subject_public_key.data.to_vec(), algorithm })
    }

    /// True for an RSA key.
    pub(super) fn is_rsa(&self) -> bool {
        self.algorithm == &PKCS_RSA_SHA256
    }
}

impl PublicKeyData for SigningRequest {
    fn der_bytes(&self) -> &[u8] {
        &self.public_key
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

/// Reason for which a request is rejected.
#[derive(Debug, Error)]
pub enum SigningRequestError {
    /// The text is too long.
    #[error("the certificate signing request has {size} bytes; at most {MAX_SIZE} are accepted")]
    Size {
        /// Size of the text in bytes.
        size: usize,
    },
    /// The text is not PEM.
    #[error("the certificate signing request is not PEM: {reason}")]
    Pem {
        /// Message of the parser.
        reason: String,
    },
    /// The content is not a request.
    #[error("the certificate signing request cannot be parsed: {reason}")]
    Der {
        /// Message of the parser.
        reason: String,
    },
    /// The signature is invalid, or the request asks for an extension that no workload has.
    #[error("the certificate signing request is invalid: {cause}")]
    Invalid {
        /// Error of the certificate library.
        #[source]
        cause: rcgen::Error,
    },
    /// The key is of another kind or size.
    #[error(
        "the key of the certificate signing request is not supported: expected ECDSA P-256 or \
         P-384, or RSA with 2048 to 4096 bits"
    )]
    Key,
}

/// Signature algorithm whose certificates describe the key as `key` does.
fn algorithm(key: &SubjectPublicKeyInfo<'_>) -> Option<&'static SignatureAlgorithm> {
    match key.parsed().ok()? {
        PublicKey::RSA(rsa) if RSA_BITS.contains(&rsa.key_size()) => Some(&PKCS_RSA_SHA256),
        PublicKey::EC(_) => {
            let curve = key.algorithm.parameters.as_ref()?.as_oid().ok()?;
            [(OID_EC_P256, &PKCS_ECDSA_P256_SHA256), (OID_NIST_EC_P384, &PKCS_ECDSA_P384_SHA384)]
                .into_iter()
                .find_map(|(known, algorithm)| (known == curve).then_some(algorithm))
        }
        _ => None,
    }
}

/// Bytes of PEM. A request with an RSA key of 4096 bits has 1.7 KB.
const MAX_SIZE: usize = 16 * 1024;
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;
