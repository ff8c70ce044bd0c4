//! Trusted root certificates of the mesh.

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::pem;

/// Root certificates by source.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TrustBundle {
    /// Roots in the answer of the certificate service.
    pub signer: Vec<CertificateDer<'static>>,
    /// Roots in the mounted file.
    pub mounted: Vec<CertificateDer<'static>>,
    /// Roots in the mesh's `ProxyConfig`.
    pub configured: Vec<CertificateDer<'static>>,
}

impl TrustBundle {
    /// Returns all roots once: the signer's, then the mounted ones, then the configured ones.
    pub fn roots(&self) -> Vec<CertificateDer<'static>> {
        union(self.signer.iter().chain(&self.mounted).chain(&self.configured))
    }

    /// Returns the roots that the mesh announces independently of the signer's answer.
    pub fn announced(&self) -> Vec<CertificateDer<'static>> {
        union(self.mounted.iter().chain(&self.configured))
    }

    /// Returns the roots of both bundles.
    pub fn joined(&self, other: &Self) -> Vec<CertificateDer<'static>> {
        union(self.roots().iter().chain(&other.roots()))
    }
}

/// Parses root certificates; Envoy rejects all of them if one is invalid, so that one is an error.
pub fn parse_roots(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, RootError> {
    let roots = pem::parse_certificates(text)
        .map_err(|reason| RootError::Parse { reason: reason.to_owned() })?;
    for root in &roots {
        X509Certificate::from_der(root)
            .map_err(|error| RootError::Parse { reason: error.to_string() })?;
    }
    if roots.is_empty() { Err(RootError::Empty) } else { Ok(roots) }
}

/// Error of a file or message with root certificates.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RootError {
    /// The text has no certificate.
    #[error("no certificate in PEM")]
    Empty,
    /// The text or a certificate in it is invalid.
    #[error("{reason}")]
    Parse {
        /// Message of the parser.
        reason: String,
    },
}

fn union<'a>(
    roots: impl IntoIterator<Item = &'a CertificateDer<'static>>,
) -> Vec<CertificateDer<'static>> {
    let mut union: Vec<CertificateDer<'static>> = Vec::new();
    for root in roots {
        if !union.contains(root) {
            union.push(root.clone());
        }
    }
    union
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(names: &[u8]) -> Vec<CertificateDer<'static>> {
        names.iter().map(|name| CertificateDer::from(vec![*name])).collect()
    }

    #[test]
    fn bundle_is_the_union_of_all_sources() {
        let bundle =
            TrustBundle { signer: roots(b"ab"), mounted: roots(b"bc"), configured: roots(b"cda") };
        assert_eq!(bundle.roots(), roots(b"abcd"));
        assert_eq!(bundle.announced(), roots(b"bcda"));
    }

    #[test]
    fn joined_bundles_lose_no_root() {
        let old = TrustBundle { signer: roots(b"a"), ..TrustBundle::default() };
        let new = TrustBundle { signer: roots(b"b"), mounted: roots(b"c"), ..old.clone() };
        assert_eq!(old.joined(&new), roots(b"abc"));
    }

    #[test]
    fn text_with_an_invalid_certificate_is_an_error() {
        assert_eq!(parse_roots(b""), Err(RootError::Empty));
        let key = pem::encode("PRIVATE KEY", b"key");
        assert_eq!(parse_roots(key.as_bytes()), Err(RootError::Empty));
        let half = b"-----BEGIN CERTIFICATE-----\n";
        assert!(matches!(parse_roots(half), Err(RootError::Parse { .. })));
        let garbage = pem::certificates(&roots(b"x"));
        assert!(matches!(parse_roots(garbage.as_bytes()), Err(RootError::Parse { .. })));
    }
}
