//! Hostnames of services.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use thiserror::Error;

/// Fully qualified hostname in lower case without a trailing dot, `web.shop.svc.cluster.local`.
/// The first label may be `*` in hosts from outside of Kubernetes. Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hostname(Arc<str>);

/// Text that is no hostname (RFC 1123, at most 253 bytes).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid hostname {0:?}: expected labels of letters, digits and '-', joined by dots")]
pub struct InvalidHostname(pub String);

impl Hostname {
    /// Parses a hostname; upper case becomes lower case.
    pub fn parse(text: &str) -> Result<Self, InvalidHostname> {
        let lower = text.to_ascii_lowercase();
        let labels = lower.strip_prefix("*.").unwrap_or(&lower);
        let valid = lower.len() <= MAX_LENGTH && labels.split('.').all(is_label);
        if valid { Ok(Self(lower.into())) } else { Err(InvalidHostname(text.to_owned())) }
    }

    /// Joins the hostname of a Kubernetes Service: `NAME.NAMESPACE.svc.DOMAIN`.
    pub fn for_service(name: &str, namespace: &str, domain: &str) -> Result<Self, InvalidHostname> {
        Self::parse(&format!("{name}.{namespace}.svc.{domain}"))
    }

    /// Text that stands before all hostnames; a bound of ranges.
    pub(crate) fn first() -> Self {
        Self(Arc::from(""))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for Hostname {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

fn is_label(label: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !label.is_empty()
        && label.len() <= MAX_LABEL
        && label.bytes().all(allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

const MAX_LENGTH: usize = 253;
const MAX_LABEL: usize = 63;
