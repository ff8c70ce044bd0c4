//! Numbers of bootstraps.

use std::sync::Arc;

use super::Desired;
use super::machine::Revision;

/// Bootstraps by number: the last one, and those that run.
#[derive(Debug, Default)]
pub(super) struct Revisions {
    known: Vec<(Revision, Arc<Desired>)>,
    last: u64,
}

impl Revisions {
    /// Returns the number of a bootstrap. A new one replaces those that do not run.
    pub(super) fn number(
        &mut self,
        desired: &Arc<Desired>,
        runs: impl Fn(Revision) -> bool,
    ) -> Revision {
        if let Some((revision, _)) =
            self.known.iter().find(|(_, known)| known.has_same_envoy(desired))
        {
            return *revision;
        }
        self.known.retain(|(revision, _)| runs(*revision));
        self.last += 1;
        let revision = Revision(self.last);
        self.known.push((revision, Arc::clone(desired)));
        revision
    }

    pub(super) fn bootstrap(&self, revision: Revision) -> Option<Arc<Desired>> {
        let found = self.known.iter().find(|(known, _)| *known == revision);
        found.map(|(_, desired)| Arc::clone(desired))
    }
}
