//! Counts for the summary of `uninject`.

use std::fmt;
use std::ops::AddAssign;

/// Counts for a file or a part of it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Tally {
    pub(super) uninjected: usize,
    /// Pod templates without an injection.
    pub(super) not_injected: usize,
    /// Objects without a pod template.
    pub(super) others: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.uninjected += other.uninjected;
        self.not_injected += other.not_injected;
        self.others += other.others;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uninjected, not_injected, others } = self;
        write!(f, "{uninjected} uninjected, {not_injected} not injected, {others} of other kinds")
    }
}
