//! Format of the Secret that holds the CA, the only state that replicas share.

pub mod ca_numbers;
pub mod rotation_requests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use crate::authority::{Authority, AuthorityError};
use crate::bundle::{Bundle, BundleError, TrustedCa};
use ca_numbers::{CaNumbers, CaNumbersError};

/// State of the rotation: the signing CA, the other trusted CA, and the phase.
///
/// Every change is one compare-and-swap on the Secret's resource version and raises the generation,
/// so two replicas never hold different states of one generation for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Generation, which grows with every write.
    pub generation: u64,
    /// Phase of the rotation.
    pub phase: Phase,
    /// Start of the phase.
    pub phase_since: Timestamp,
    /// CA that signs leaves.
    pub active: Authority,
    /// Numbers of revoked CAs that were dropped; in a bundle they get no grace period.
    pub revoked: CaNumbers,
}

/// Phase of the rotation, with its second CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// One CA signs and is trusted.
    Steady,
    /// The next CA is published and does not sign yet.
    Prepared {
        /// CA that will sign.
        next: Authority,
    },
    /// The new CA signs; the previous one is trusted until its last leaf has expired.
    Activated {
        /// Previous CA. Its key is kept so that a replica can fall back to it where the new one is
        /// not trusted.
        retiring: Authority,
    },
}

impl State {
    /// State with a CA of its own.
    pub fn new(active: Authority, generation: u64, now: Timestamp) -> Self {
        let revoked = CaNumbers::default();
        Self { generation, phase: Phase::Steady, phase_since: second(now), active, revoked }
    }

    /// Parses a Secret; missing or contradictory content is an error.
    pub fn parse(secret: &Secret) -> Result<Self, SecretError> {
        let annotations = secret.metadata.annotations.as_ref();
        let phase = annotation(annotations, PHASE)?;
        let phase_since = annotation(annotations, PHASE_SINCE)?;
        let state = Self {
            generation: generation(annotations)?,
            phase_since: phase_since.parse().map_err(|error: jiff::Error| {
                SecretError::Annotation {
                    annotation: PHASE_SINCE,
                    value: phase_since.to_owned(),
                    reason: error.to_string(),
                }
            })?,
            active: authority(secret, ACTIVE)?,
            revoked: revoked(annotations)?,
            phase: match phase {
                "steady" => Phase::Steady,
                "prepared" => Phase::Prepared { next: authority(secret, NEXT)? },
                "activated" => Phase::Activated { retiring: authority(secret, RETIRING)? },
                other => {
                    return Err(SecretError::Annotation {
                        annotation: PHASE,
                        value: other.to_owned(),
                        reason: "expected steady, prepared or activated".to_owned(),
                    });
                }
            },
        };
        let published = Bundle::parse(data(secret, BUNDLE)?)
            .map_err(|source| SecretError::Bundle { source })?;
        if published.is_superset_of(&state.bundle()) {
            Ok(state)
        } else {
            Err(SecretError::Incomplete)
        }
    }

    /// Recovers the signing CA from a Secret that cannot be parsed as a whole.
    ///
    /// A leaf of that CA is trusted wherever its `caBundle` is still in place; a leaf of a new CA
    /// is not.
    pub fn salvage(secret: &Secret, now: Timestamp) -> Option<Self> {
        let active = authority(secret, ACTIVE).ok()?;
        let annotations = secret.metadata.annotations.as_ref();
        let generation = generation(annotations).unwrap_or_default();
        let revoked = revoked(annotations).unwrap_or_default();
        Some(Self { revoked, ..Self::new(active, generation, now) })
    }

    /// Writes the state into a Secret and keeps other content.
    #[must_use]
    pub fn write(&self, mut secret: Secret) -> Secret {
        let metadata = &mut secret.metadata;
        let annotations = metadata.annotations.get_or_insert_default();
        for (name, value) in [
            (PHASE, self.phase.word().to_owned()),
            (PHASE_SINCE, self.phase_since.to_string()),
            (GENERATION, self.generation.to_string()),
            (DIRECT_INJECTION, "true".to_owned()),
        ] {
            annotations.insert(name.to_owned(), value);
        }
        if self.revoked.is_empty() {
            annotations.remove(REVOKED);
        } else {
            annotations.insert(REVOKED.to_owned(), self.revoked.to_string());
        }
        let data = secret.data.get_or_insert_default();
        for pair in [NEXT, RETIRING] {
            data.remove(pair.certificate);
            data.remove(pair.key);
        }
        insert(data, ACTIVE, &self.active);
        match &self.phase {
            Phase::Steady => {}
            Phase::Prepared { next } => insert(data, NEXT, next),
            Phase::Activated { retiring } => insert(data, RETIRING, retiring),
        }
        data.insert(BUNDLE.to_owned(), ByteString(self.bundle().to_pem().into_bytes()));
        secret
    }

    /// The same state with a generation greater than its own and `generation`.
    #[must_use]
    pub fn after(mut self, generation: u64) -> Self {
        self.generation = self.generation.max(generation).saturating_add(1);
        self
    }

    /// Adds a next CA, which is published and does not sign yet.
    #[must_use]
    pub fn prepared(self, next: Authority, now: Timestamp) -> Self {
        Self { phase: Phase::Prepared { next }, phase_since: second(now), ..self }
    }

    /// Lets `next` sign; the previous CA stays trusted.
    #[must_use]
    pub fn activated(self, next: Authority, now: Timestamp) -> Self {
        let retiring = self.active.clone();
        Self {
            phase: Phase::Activated { retiring },
            phase_since: second(now),
            active: next,
            ..self.after(0)
        }
    }

    /// Records that `ca` is dropped because it is revoked.
    #[must_use]
    pub fn revoking(mut self, ca: &TrustedCa) -> Self {
        self.revoked.add(ca);
        self
    }

    /// True if `ca` is of this installation and was dropped because it was revoked.
    pub fn has_revoked(&self, ca: &TrustedCa) -> bool {
        self.revoked.holds(ca)
            && ca.installation() == self.active.ca().installation()
            && !self.knows(ca)
    }

    /// Restarts the retire delay of the retiring CA.
    #[must_use]
    pub fn prolonged(self, now: Timestamp) -> Self {
        Self { phase_since: second(now), ..self.after(0) }
    }

    /// True if `ca` is one of the CAs of this state, or has the subject and key of one.
    pub fn knows(&self, ca: &TrustedCa) -> bool {
        self.bundle().certificates().iter().any(|known| known.is_same_signer(ca))
    }

    /// Drops the CA that does not sign.
    #[must_use]
    pub fn retired(self, now: Timestamp) -> Self {
        Self { phase: Phase::Steady, phase_since: second(now), ..self.after(0) }
    }

    /// CAs with their roles, the signing one first.
    pub fn roles(&self) -> Vec<(&'static str, &TrustedCa)> {
        let other = match &self.phase {
            Phase::Steady => None,
            Phase::Prepared { next } => Some(("next", next.ca())),
            Phase::Activated { retiring } => Some(("retiring", retiring.ca())),
        };
        [("active", self.active.ca())].into_iter().chain(other).collect()
    }

    /// CAs that must be trusted, the signing one first.
    pub fn bundle(&self) -> Bundle {
        Bundle::new(
            self.active.ca().clone(),
            self.phase.other().map(|authority| authority.ca().clone()),
        )
    }
}

impl Phase {
    /// Words of all phases, in their order.
    pub const WORDS: [&str; 3] = ["steady", "prepared", "activated"];

    /// Word in the Secret's annotation.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Prepared { .. } => "prepared",
            Self::Activated { .. } => "activated",
        }
    }

    /// The CA of this phase that does not sign.
    pub fn other(&self) -> Option<&Authority> {
        match self {
            Self::Steady => None,
            Self::Prepared { next: other } | Self::Activated { retiring: other } => Some(other),
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

/// Parses the generation of a Secret, even if the rest is unusable.
pub fn generation_of(secret: &Secret) -> Option<u64> {
    generation(secret.metadata.annotations.as_ref()).ok()
}

/// True if the API server rejects changes of the Secret's content.
pub fn is_immutable(secret: &Secret) -> bool {
    secret.immutable == Some(true)
}

/// Message about an immutable Secret, with the command to run.
pub fn immutable_message(secret: &Secret) -> String {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let (name, namespace) = (name(&secret.metadata.name), name(&secret.metadata.namespace));
    format!(
        "the Secret {namespace}/{name} is immutable, so its CA cannot be restored, renewed or \
         replaced; hint: while a replica runs, `kubectl --namespace {namespace} delete \
         secret {name}`; the replica creates it again, mutable and with the same CA"
    )
}

/// Reason for which a Secret holds no state.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// A key of `data` is absent or empty.
    #[error("key `{key}` is missing")]
    Missing {
        /// Missing key.
        key: &'static str,
    },
    /// A certificate and its key are not a CA.
    #[error("keys `{certificate}` and `{key}` hold no CA: {source}")]
    Authority {
        /// Key of the certificate.
        certificate: &'static str,
        /// Key of the private key.
        key: &'static str,
        /// Error of the certificate or the private key.
        source: AuthorityError,
    },
    /// The published bundle cannot be parsed.
    #[error("key `ca.crt` holds no bundle of CAs: {source}")]
    Bundle {
        /// Error of the bundle.
        source: BundleError,
    },
    /// The published bundle lacks a CA of the Secret.
    #[error("key `ca.crt` lacks a CA that the other keys hold")]
    Incomplete,
    /// An annotation is missing.
    #[error("annotation `{annotation}` is missing")]
    Unannotated {
        /// Name of the annotation.
        annotation: &'static str,
    },
    /// An annotation has an invalid value.
    #[error("annotation `{annotation}`: `{value}`: {reason}")]
    Annotation {
        /// Name of the annotation.
        annotation: &'static str,
        /// Value of the annotation.
        value: String,
        /// Reason for which it is invalid.
        reason: String,
    },
}

/// Keys of `data` for one CA.
#[derive(Clone, Copy)]
struct Pair {
    certificate: &'static str,
    key: &'static str,
}

/// Rounds up to seconds, since rounding down would shorten the delays that follow.
fn second(now: Timestamp) -> Timestamp {
    let up = i64::from(now.subsec_nanosecond() > 0);
    Timestamp::from_second(now.as_second() + up).unwrap_or(now)
}

fn authority(secret: &Secret, pair: Pair) -> Result<Authority, SecretError> {
    let certificate = data(secret, pair.certificate)?;
    Authority::from_pem(certificate, data(secret, pair.key)?).map_err(|source| {
        SecretError::Authority { certificate: pair.certificate, key: pair.key, source }
    })
}

fn data<'a>(secret: &'a Secret, key: &'static str) -> Result<&'a [u8], SecretError> {
    secret
        .data
        .as_ref()
        .and_then(|data| data.get(key))
        .map(|value| value.0.as_slice())
        .filter(|value| !value.is_empty())
        .ok_or(SecretError::Missing { key })
}

fn insert(data: &mut BTreeMap<String, ByteString>, pair: Pair, authority: &Authority) {
    let certificate = authority.certificate_pem().into_bytes();
    data.insert(pair.certificate.to_owned(), ByteString(certificate));
    let key = authority.key_pem().as_bytes().to_vec();
    data.insert(pair.key.to_owned(), ByteString(key));
}

fn generation(annotations: Option<&BTreeMap<String, String>>) -> Result<u64, SecretError> {
    let value = annotation(annotations, GENERATION)?;
    value.parse().map_err(|_| SecretError::Annotation {
        annotation: GENERATION,
        value: value.to_owned(),
        reason: "it is not a whole number".to_owned(),
    })
}

fn revoked(annotations: Option<&BTreeMap<String, String>>) -> Result<CaNumbers, SecretError> {
    // Secrets from before there were revocations have none.
    let Some(value) = annotations.and_then(|annotations| annotations.get(REVOKED)) else {
        return Ok(CaNumbers::default());
    };
    value.parse().map_err(|error: CaNumbersError| SecretError::Annotation {
        annotation: REVOKED,
        value: value.to_owned(),
        reason: error.to_string(),
    })
}

fn annotation<'a>(
    annotations: Option<&'a BTreeMap<String, String>>,
    annotation: &'static str,
) -> Result<&'a str, SecretError> {
    annotations
        .and_then(|annotations| annotations.get(annotation))
        .map(String::as_str)
        .ok_or(SecretError::Unannotated { annotation })
}

const ACTIVE: Pair = Pair { certificate: "active.crt", key: "active.key" };
const NEXT: Pair = Pair { certificate: "next.crt", key: "next.key" };
const RETIRING: Pair = Pair { certificate: "retiring.crt", key: "retiring.key" };
/// Key that cert-manager's cainjector and trust-manager read too.
const BUNDLE: &str = "ca.crt";

const PHASE: &str = "outrigger.io/phase";
const PHASE_SINCE: &str = "outrigger.io/phase-since";
const GENERATION: &str = "outrigger.io/generation";
const REVOKED: &str = "outrigger.io/revoked";
/// Lets cert-manager's cainjector publish this Secret's `ca.crt` where it is preferred.
const DIRECT_INJECTION: &str = "cert-manager.io/allow-direct-injection";
