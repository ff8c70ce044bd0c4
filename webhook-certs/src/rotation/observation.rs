//! Observation of the cluster.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;

use crate::bundle::{Bundle, TrustedCa};
use crate::secret::rotation_requests::RotationRequests;

/// Secret and webhook configurations from live reads.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Secret, if it exists.
    pub secret: Option<Secret>,
    /// Webhook configurations that exist and could be read.
    pub configurations: Vec<Configuration>,
    /// Published roots of workloads.
    pub roots: PublishedRoots,
    /// True if all of them could be read; a missing one counts as read.
    pub is_complete: bool,
    /// Difference of this machine's clock to the API server's; negative if it is behind.
    pub clock_ahead: SignedDuration,
    /// Result of the latest trust probe; absent before the first.
    pub probe: Option<Result<(), ProbeCause>>,
}

impl Observation {
    /// Converts an instant of this machine's clock to the API server's.
    pub fn now(&self, local: Timestamp) -> Timestamp {
        local.saturating_sub(self.clock_ahead).unwrap_or(local)
    }

    /// Requests in the Secret's annotations.
    pub(super) fn requests(&self) -> RotationRequests {
        self.secret.as_ref().map(RotationRequests::from_secret).unwrap_or_default()
    }

    /// Managed entries of all configurations.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.configurations.iter().flat_map(|configuration| &configuration.entries)
    }

    /// Bundles by which clients verify leaves: of all entries, and those of workloads.
    pub fn bundles(&self) -> impl Iterator<Item = &Bundle> {
        self.entries().map(|entry| &entry.bundle).chain(&self.roots.bundles)
    }

    /// True if every readable bundle trusts leaves of `ca`; also if there is none.
    pub fn trusts(&self, ca: &TrustedCa, now: Timestamp) -> bool {
        self.bundles().all(|bundle| bundle.trusts(ca, now))
    }
}

/// Roots that workloads have, where the CA signs for them.
///
/// A decision changes none of them: they are published whenever they differ from the Secret's CAs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedRoots {
    /// The different bundles.
    pub bundles: Vec<Bundle>,
    /// Number of changes of existing bundles, which grows even if a change is undone.
    pub changes: i64,
}

/// Managed entries of a mutating webhook configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Name of the object.
    pub name: String,
    /// UID, which differs for an object created anew under the same name.
    pub uid: String,
    /// Resource version, which changes with every write.
    pub resource_version: String,
    /// Generation, which grows with every change of the content, even if it is undone.
    pub generation: i64,
    /// Instant of the latest write by a replica, in whole seconds.
    pub published_at: Option<Timestamp>,
    /// Managed entries.
    pub entries: Vec<Entry>,
    /// Other field managers that own a `caBundle` of these entries.
    pub others: Vec<String>,
}

/// Webhook entry with the CAs that API servers trust for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name, unique in its configuration.
    pub name: String,
    /// Content of its `caBundle`.
    pub bundle: Bundle,
}

/// Cause of a failed trust probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeCause {
    /// No entry of ours reviews the probe, or its failures are ignored.
    NotConfigured,
    /// The API server does not trust the certificate.
    Untrusted,
    /// Packets are lost on the way.
    Timeout,
    /// No endpoint listens.
    NoEndpoints,
    /// The account may not create the probe's object.
    Forbidden,
    /// The cause is unknown.
    Other,
}

impl ProbeCause {
    /// Word in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotConfigured => "not_configured",
            Self::Untrusted => "untrusted",
            Self::Timeout => "timeout",
            Self::NoEndpoints => "no_endpoints",
            Self::Forbidden => "forbidden",
            Self::Other => "other",
        }
    }
}
