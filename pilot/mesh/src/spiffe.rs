//! Identities of workloads: trust domains and SPIFFE IDs (SPIFFE-ID standard, sections 2 and 3).

use std::fmt::{self, Display, Formatter};

use thiserror::Error;

/// Trust domain, for example `cluster.local`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrustDomain(String);

impl TrustDomain {
    /// Parses a trust domain: lower-case letters, digits, `.`, `-` and `_`, at most 255 bytes.
    pub fn parse(text: &str) -> Result<Self, SpiffeError> {
        let allowed = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'_')
        };
        let valid = (1..=MAX_TRUST_DOMAIN).contains(&text.len()) && text.bytes().all(allowed);
        if valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(SpiffeError::TrustDomain(text.to_owned()))
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for TrustDomain {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Identity of a workload: `spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/SERVICE_ACCOUNT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpiffeId {
    trust_domain: TrustDomain,
    namespace: String,
    service_account: String,
}

impl SpiffeId {
    /// Makes the identity of a service account.
    pub fn new(
        trust_domain: TrustDomain,
        namespace: &str,
        service_account: &str,
    ) -> Result<Self, SpiffeError> {
        for segment in [namespace, service_account] {
            if !is_segment(segment) {
                return Err(SpiffeError::Segment(segment.to_owned()));
            }
        }
        let (namespace, service_account) = (namespace.to_owned(), service_account.to_owned());
        Ok(Self { trust_domain, namespace, service_account })
    }

    /// Parses the URI of a certificate's subject alternative name.
    pub fn parse(uri: &str) -> Result<Self, SpiffeError> {
        let invalid = || SpiffeError::Uri(uri.to_owned());
        let mut parts = uri.strip_prefix(SCHEME).ok_or_else(invalid)?.split('/');
        let trust_domain = TrustDomain::parse(parts.next().unwrap_or_default())?;
        let names = (parts.next(), parts.next(), parts.next(), parts.next(), parts.next());
        let (Some("ns"), Some(namespace), Some("sa"), Some(service_account), None) = names else {
            return Err(invalid());
        };
        Self::new(trust_domain, namespace, service_account)
    }

    /// Trust domain of the identity.
    pub fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    /// Namespace of the service account.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Name of the service account.
    pub fn service_account(&self) -> &str {
        &self.service_account
    }
}

impl Display for SpiffeId {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { trust_domain, namespace, service_account } = self;
        write!(formatter, "{SCHEME}{trust_domain}/ns/{namespace}/sa/{service_account}")
    }
}

/// Text that is no identity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpiffeError {
    /// The trust domain has other characters, or none.
    #[error(
        "invalid trust domain {0:?}: expected lower-case letters, digits, '.', '-' and '_', \
         1 to 255 of them"
    )]
    TrustDomain(String),
    /// The namespace or the service account cannot be a segment of a path.
    #[error("invalid name {0:?} in an identity: expected letters, digits, '.', '-' and '_'")]
    Segment(String),
    /// The URI has another form.
    #[error(
        "invalid identity {0:?}: expected spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/SERVICE_ACCOUNT"
    )]
    Uri(String),
}

fn is_segment(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    // Segments of dots alone are relative paths, which the standard rejects.
    text.len() <= MAX_NAME && text.bytes().all(allowed) && text.bytes().any(|byte| byte != b'.')
}

const SCHEME: &str = "spiffe://";
const MAX_TRUST_DOMAIN: usize = 255;
/// Longest name of a Kubernetes object.
const MAX_NAME: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_written_as_it_is_parsed() {
        let uri = "spiffe://cluster.local/ns/shop/sa/web";
        let id = SpiffeId::parse(uri).unwrap();
        assert_eq!(id.to_string(), uri);
        assert_eq!((id.namespace(), id.service_account()), ("shop", "web"));
        let domain = TrustDomain::parse("cluster.local").unwrap();
        assert_eq!(SpiffeId::new(domain, "shop", "web").unwrap(), id);
    }

    #[test]
    fn other_uris_are_rejected() {
        for uri in [
            "",
            "spiffe://",
            "spiffe://cluster.local",
            "https://cluster.local/ns/shop/sa/web",
            "spiffe://cluster.local/ns/shop/sa/web/more",
            "spiffe://cluster.local/ns/shop/sa/",
            "spiffe://cluster.local/sa/web/ns/shop",
            "spiffe://CLUSTER.local/ns/shop/sa/web",
            "spiffe://user@cluster.local/ns/shop/sa/web",
            "spiffe://cluster.local:80/ns/shop/sa/web",
            "spiffe://cluster.local/ns/../sa/web",
            "spiffe://cluster.local/ns/shop/sa/we b",
            "spiffe://cluster.local/ns/shop/sa/web?x",
        ] {
            assert!(SpiffeId::parse(uri).is_err(), "{uri}");
        }
    }
}
