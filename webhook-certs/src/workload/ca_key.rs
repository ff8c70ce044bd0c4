//! Private key of a CA in any form that operators mount.

use rcgen::{
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, PublicKeyData,
    SignatureAlgorithm, SigningKey,
};
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::sign::Signer;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::FromDer;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::authority::AuthorityError;
use crate::bundle::TrustedCa;
use crate::pem_error;

/// Key that signs with SHA-256, or with SHA-384 on P-384.
#[derive(Debug)]
pub(super) struct CaKey {
    signer: Box<dyn Signer>,
    public_key: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
}

impl CaKey {
    /// Parses a key from PEM (PKCS #8, SEC 1 or PKCS #1) that belongs to `ca`.
    pub(super) fn from_pem(pem: &[u8], ca: &TrustedCa) -> Result<Self, AuthorityError> {
        let unusable = |reason: String| AuthorityError::MountedKey { reason };
        let key = PrivateKeyDer::from_pem_slice(pem)
            .map_err(|error| unusable(pem_error::describe(&error)))?;
        let key = any_supported_type(&key).map_err(|error| unusable(error.to_string()))?;
        let belongs = key.public_key().is_some_and(|own| own.as_ref() == ca.public_key());
        let schemes = SCHEMES.map(|(scheme, _)| scheme);
        let signer = key.choose_scheme(&schemes).ok_or_else(|| unusable(UNSUPPORTED.to_owned()))?;
        if !belongs {
            return Err(AuthorityError::KeyMismatch { name: ca.name().to_owned() });
        }
        let algorithm = SCHEMES
            .into_iter()
            .find_map(|(scheme, algorithm)| (scheme == signer.scheme()).then_some(algorithm))
            .ok_or_else(|| unusable(UNSUPPORTED.to_owned()))?;
        let (_, info) = SubjectPublicKeyInfo::from_der(ca.public_key())
            .map_err(|error| unusable(error.to_string()))?;
        let public_key = info.subject_public_key.data.to_vec();
        Ok(Self { signer, public_key, algorithm })
    }
}

impl PublicKeyData for CaKey {
    fn der_bytes(&self) -> &[u8] {
        &self.public_key
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

impl SigningKey for CaKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.signer.sign(message).map_err(|_| rcgen::Error::RemoteKeyError)
    }
}

const SCHEMES: [(SignatureScheme, &SignatureAlgorithm); 3] = [
    (SignatureScheme::ECDSA_NISTP256_SHA256, &PKCS_ECDSA_P256_SHA256),
    (SignatureScheme::ECDSA_NISTP384_SHA384, &PKCS_ECDSA_P384_SHA384),
    (SignatureScheme::RSA_PKCS1_SHA256, &PKCS_RSA_SHA256),
];

const UNSUPPORTED: &str = "expected an RSA key, or an ECDSA key on P-256 or P-384";
