//! Log of failures that repeat with each scrape.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Last failure of each source of metrics.
#[derive(Debug, Default)]
pub(super) struct FailureLog(Mutex<BTreeMap<String, String>>);

impl FailureLog {
    /// Keeps a failure. True if it is not the source's last one.
    pub(super) fn insert(&self, source: &str, failure: &str) -> bool {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = failures.insert(source.to_owned(), failure.to_owned());
        last.as_deref() != Some(failure)
    }

    /// Forgets the failure of a source that was read to its end.
    pub(super) fn forget(&self, source: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(source);
    }

    /// Forgets all failures.
    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_failure_of_a_source_is_not_new() {
        let log = FailureLog::default();
        assert!(log.insert("a", "status 404") && log.insert("b", "status 404"));
        assert!(!log.insert("a", "status 404"));
        assert!(log.insert("a", "status 500"));
        log.forget("a");
        assert!(log.insert("a", "status 500") && !log.insert("b", "status 404"));
    }
}
