//! What the upkeep of certificates has come to, for readiness, metrics and people.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::rotation::Revocation;

/// The outcome of the latest look at the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The phase of the CA's rotation: `steady`, `prepared` or `activated`; absent until the
    /// Secret was read.
    pub phase: Option<&'static str>,
    /// Since when it is in that phase.
    pub phase_since: Option<Timestamp>,
    /// The generation of the Secret's state, which grows with every change of it.
    pub generation: Option<u64>,
    /// How many webhook entries point at our Service and are kept up.
    pub entries: usize,
    /// Whether every such entry trusts the leaf that is served; also true when there is none, since
    /// the webhook configuration is applied last.
    pub trusted: bool,
    /// The last instant at which the CA is valid.
    pub authority_not_after: Option<Timestamp>,
    /// The last instant at which the served leaf is valid.
    pub leaf_not_after: Option<Timestamp>,
    /// How many CAs that the Secret does not know are trusted by webhook configurations.
    pub foreign: usize,
    /// The CAs that somebody asks not to trust any longer, and what becomes of them.
    pub revocations: Vec<Revocation>,
    /// What this process may not do, for example `patch mutatingwebhookconfigurations/hook`; it
    /// serves all the same, and tries again every few minutes.
    pub denied: Vec<String>,
    /// How far this machine's clock is ahead of the API server's, negative where it is behind;
    /// absent until an answer had a date.
    pub clock_ahead: Option<SignedDuration>,
    /// How often each other field manager has made a `caBundle` wrong that was right.
    pub overwrites: BTreeMap<String, u64>,
    /// What the trust probe has shown; absent where there is none, and before the first.
    pub probe: Option<Probe>,
    /// How often this process has written to the Secret.
    pub secret_writes: u64,
    /// What became of this process's writes to webhook configurations, by the configuration's name;
    /// one that nothing was written to yet is missing.
    pub patches: BTreeMap<String, Patches>,
    /// How many looks went wrong.
    pub errors: u64,
    /// What went wrong in the latest look; absent when nothing did.
    pub last_error: Option<String>,
}

impl Status {
    /// Takes over what went wrong in the latest look, and logs it each time that it is something
    /// else; returns whether it is.
    pub(crate) fn heed_troubles(&mut self, troubles: &[String]) -> bool {
        let last_error = (!troubles.is_empty()).then(|| troubles.join("; "));
        let is_news = self.last_error != last_error;
        if is_news && let Some(error) = &last_error {
            tracing::warn!("{error}");
        }
        self.errors += u64::from(last_error.is_some());
        self.last_error = last_error;
        is_news
    }

    /// How often this process has written to webhook configurations with success.
    pub fn bundle_writes(&self) -> u64 {
        self.patches.values().map(Patches::writes).sum()
    }
}

/// What the latest trust probe has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Why the API server does not call the webhook, as one of [`ProbeCause::word`]; absent when it
    /// does.
    ///
    /// [`ProbeCause::word`]: crate::probe::ProbeCause::word
    pub cause: Option<&'static str>,
    /// The same for people.
    pub message: String,
}

/// Counts of the writes of `caBundle` to one webhook configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patches {
    /// Those that were sent.
    pub attempts: u64,
    /// Those that met somebody else's change, and are decided anew.
    pub retries: u64,
    /// Those that were refused or not answered.
    pub failures: u64,
}

impl Patches {
    /// Counts one that was sent; an error says whether it met somebody else's change.
    pub(crate) fn count(&mut self, outcome: Result<(), bool>) {
        self.attempts += 1;
        self.retries += u64::from(outcome == Err(true));
        self.failures += u64::from(outcome == Err(false));
    }

    fn writes(&self) -> u64 {
        self.attempts - self.retries - self.failures
    }
}
