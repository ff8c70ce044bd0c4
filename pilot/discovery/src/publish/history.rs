//! Recent publications, for a debug page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;

use super::cause::{Cause, SHOWN};

/// Recent publications. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<VecDeque<Publication>>>);

/// State that was published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Publication {
    /// End of the generation.
    pub at: Timestamp,
    /// Changes since the state before.
    #[serde(flatten)]
    pub cause: Cause,
    /// Number of the proxies whose state changed.
    pub proxies: usize,
    /// The first of them.
    pub to: Vec<String>,
}

impl History {
    /// Recent publications, the latest first.
    pub fn list(&self) -> Vec<Publication> {
        self.lock().iter().rev().cloned().collect()
    }

    /// Adds the publication of a state to proxies, whose names are `to`.
    pub(super) fn add(
        &self,
        at: Timestamp,
        cause: Cause,
        to: impl ExactSizeIterator<Item = String>,
    ) {
        let (proxies, to) = (to.len(), to.take(SHOWN).collect());
        let mut recent = self.lock();
        if recent.len() == CAPACITY {
            recent.pop_front();
        }
        recent.push_back(Publication { at, cause, proxies, to });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Publication>> {
        // Each change is one call: a panic elsewhere leaves no half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Publications remembered.
const CAPACITY: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_publication_is_forgotten_first() {
        let history = History::default();
        for changes in 0..=CAPACITY {
            let proxies = vec!["web-1.shop".to_owned(); SHOWN + 1].into_iter();
            history.add(Timestamp::UNIX_EPOCH, Cause { changes, ..Cause::default() }, proxies);
        }
        let recent = history.list();
        let changes = |at: usize| recent[at].cause.changes;
        assert_eq!((recent.len(), changes(0), changes(CAPACITY - 1)), (CAPACITY, CAPACITY, 1));
        assert_eq!((recent[0].proxies, recent[0].to.len()), (SHOWN + 1, SHOWN));
    }
}
