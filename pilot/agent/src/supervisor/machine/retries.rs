//! Retry budget of failed starts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Revision;

/// Failed starts since the desired bootstrap changed. A success does not reset them.
#[derive(Clone, Debug, Default)]
pub(super) struct Retries(BTreeMap<Revision, u32>);

impl Retries {
    /// Counts a failure. Returns the delay before the next attempt, or `None` if the budget is
    /// exhausted.
    pub(super) fn failed(&mut self, revision: Revision) -> Option<Duration> {
        let failures = self.0.entry(revision).or_default();
        *failures += 1;
        (*failures <= RETRIES).then(|| FIRST_DELAY * 2_u32.pow(*failures - 1))
    }

    pub(super) fn is_exhausted(&self, revision: Revision) -> bool {
        self.0.get(&revision).is_some_and(|failures| *failures > RETRIES)
    }
}

/// Number of attempts after the first one.
pub const RETRIES: u32 = 10;
/// Delay before the first retry. It doubles with each one, to 204.6 s in all.
pub const FIRST_DELAY: Duration = Duration::from_millis(200);
