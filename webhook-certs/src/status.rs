//! Status of the reconciliation, for readiness, metrics and people.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::rotation::Revocation;

/// Result of the latest reconciliation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Phase of the CA's rotation: `steady`, `prepared` or `activated`; absent until the Secret was
    /// read.
    pub phase: Option<&'static str>,
    /// Begin of that phase.
    pub phase_since: Option<Timestamp>,
    /// Generation of the Secret's state, which grows with every change.
    pub generation: Option<u64>,
    /// Number of webhook entries that call our Service.
    pub entries: usize,
    /// True if every such entry trusts the served leaf; also if there is no entry, since the
    /// webhook configuration is applied last.
    pub trusted: bool,
    /// End of the CA's validity.
    pub authority_not_after: Option<Timestamp>,
    /// End of the served leaf's validity.
    pub leaf_not_after: Option<Timestamp>,
    /// Number of CAs in webhook configurations that are not in the Secret.
    pub foreign: usize,
    /// Pending revocations.
    pub revocations: Vec<Revocation>,
    /// Forbidden writes, for example `patch mutatingwebhookconfigurations/hook`. The process keeps
    /// serving and tries again every few minutes.
    pub denied: Vec<String>,
    /// Difference of this machine's clock to the API server's, negative if it is behind; absent
    /// until a response had a date.
    pub clock_ahead: Option<SignedDuration>,
    /// Number of times that each other field manager has broken a correct `caBundle`.
    pub overwrites: BTreeMap<String, u64>,
    /// Result of the latest trust probe; absent before the first.
    pub probe: Option<Probe>,
    /// Number of writes to the Secret by this process.
    pub secret_writes: u64,
    /// Writes to each webhook configuration by this process; absent before the first.
    pub patches: BTreeMap<String, Patches>,
    /// Number of reconciliations with errors.
    pub errors: u64,
    /// Errors of the latest reconciliation; absent if it had none.
    pub last_error: Option<String>,
}

impl Status {
    /// Records the errors of a reconciliation and logs them if they changed. Returns true if they
    /// did.
    pub(crate) fn record_errors(&mut self, errors: &[String]) -> bool {
        let last_error = (!errors.is_empty()).then(|| errors.join("; "));
        let is_news = self.last_error != last_error;
        if is_news && let Some(error) = &last_error {
            tracing::warn!("{error}");
        }
        self.errors += u64::from(last_error.is_some());
        self.last_error = last_error;
        is_news
    }

    /// Number of successful writes to webhook configurations by this process.
    pub fn bundle_writes(&self) -> u64 {
        self.patches.values().map(Patches::writes).sum()
    }
}

/// Result of a trust probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Cause of a failure, as one of [`ProbeCause::word`]; absent if the probe succeeded.
    ///
    /// [`ProbeCause::word`]: crate::rotation::ProbeCause::word
    pub cause: Option<&'static str>,
    /// Message of a failure.
    pub message: String,
}

/// Counts of writes of `caBundle` to one webhook configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patches {
    /// Requests sent.
    pub attempts: u64,
    /// Requests that conflicted with another write and are decided again.
    pub retries: u64,
    /// Requests that failed or got no response.
    pub failures: u64,
}

impl Patches {
    /// Counts a request; an error is true for a conflict.
    pub(crate) fn count(&mut self, outcome: Result<(), bool>) {
        self.attempts += 1;
        self.retries += u64::from(outcome == Err(true));
        self.failures += u64::from(outcome == Err(false));
    }

    fn writes(&self) -> u64 {
        self.attempts - self.retries - self.failures
    }
}
