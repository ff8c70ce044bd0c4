//! What one look at the cluster has shown.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;

use crate::bundle::{Bundle, TrustedCa};
use crate::probe::ProbeCause;
use crate::requests::Requests;

/// The Secret and the webhook configurations, all of them read live.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// The Secret, where it exists.
    pub secret: Option<Secret>,
    /// The webhook configurations that exist and could be read.
    pub configurations: Vec<Configuration>,
    /// Whether all of them could be read; one that does not exist counts as read.
    pub is_complete: bool,
    /// How far this machine's clock is ahead of the API server's; negative where it is behind.
    pub clock_ahead: SignedDuration,
    /// What the latest trust probe has shown; absent where there is none, and before the first.
    pub probe: Option<Result<(), ProbeCause>>,
}

impl Observation {
    /// What this machine's clock shows as `local`, as the API server's clock has it.
    pub fn now(&self, local: Timestamp) -> Timestamp {
        local.saturating_sub(self.clock_ahead).unwrap_or(local)
    }

    /// What somebody asks for by annotations of the Secret.
    pub(super) fn requests(&self) -> Requests {
        self.secret.as_ref().map(Requests::read).unwrap_or_default()
    }

    /// Every managed entry of every configuration.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.configurations.iter().flat_map(|configuration| &configuration.entries)
    }

    /// Tells whether every managed entry that could be read trusts leaves of `ca`; true where there
    /// is no entry.
    pub fn trusts(&self, ca: &TrustedCa, now: Timestamp) -> bool {
        self.entries().all(|entry| entry.bundle.trusts(ca, now))
    }
}

/// The entries of one mutating webhook configuration that are ours to keep up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The name of the object.
    pub name: String,
    /// Its identity; an object that was created anew under the same name has another one.
    pub uid: String,
    /// Changes with every write; a write on the grounds of an older one is refused.
    pub resource_version: String,
    /// Grows with every change of what the object asks for, also with one that was undone.
    pub generation: i64,
    /// When a replica wrote to it last, in whole seconds.
    pub published_at: Option<Timestamp>,
    /// The managed entries.
    pub entries: Vec<Entry>,
    /// The field managers beside our own whom the API server takes for owners of a `caBundle` of
    /// these entries.
    pub others: Vec<String>,
}

/// A webhook entry and the CAs that API servers trust for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the entry, unique in its configuration.
    pub name: String,
    /// What its `caBundle` holds.
    pub bundle: Bundle,
}
