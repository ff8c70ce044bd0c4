//! Pauses between attempts to watch.

use std::time::Duration;

use kube::runtime::utils::Backoff;

/// Doubled pauses up to a limit that is short, since endpoints age meanwhile.
#[derive(Debug)]
pub(super) struct Pauses {
    next: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.next;
        self.next = (2 * pause).min(LAST);
        Some(pause)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        *self = Self::default();
    }
}

const FIRST: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_secs(3);
