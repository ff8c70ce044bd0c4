//! Counts for the summary of `uninject`.

use std::fmt;

use crate::finding::{Finding, FindingResult};

/// Counts for all files.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct UninjectionTally {
    uninjected: usize,
    /// Pod templates without an injection.
    not_injected: usize,
    /// Objects without a pod template.
    others: usize,
}

impl UninjectionTally {
    /// Counts an object.
    pub(super) fn add(&mut self, finding: &Finding) {
        match finding.result {
            FindingResult::Changed => self.uninjected += 1,
            FindingResult::NotAWorkload(_) => self.others += 1,
            FindingResult::Skipped(_) | FindingResult::Unchanged => self.not_injected += 1,
            FindingResult::Rejected { .. } => {}
        }
    }
}

impl fmt::Display for UninjectionTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uninjected, not_injected, others } = self;
        write!(f, "{uninjected} uninjected, {not_injected} not injected, {others} of other kinds")
    }
}
