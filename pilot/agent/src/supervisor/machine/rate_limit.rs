//! Rate limit of reconciliations: a token bucket whose clock is a timer.

use std::time::Duration;

/// Tokens of reconciliations.
#[derive(Clone, Debug)]
pub(super) struct RateLimit(u32);

impl Default for RateLimit {
    fn default() -> Self {
        Self(BURST)
    }
}

impl RateLimit {
    /// Takes a token. False if there is none.
    pub(super) fn take(&mut self) -> bool {
        let rest = self.0.checked_sub(1);
        self.0 = rest.unwrap_or(0);
        rest.is_some()
    }

    /// Adds a token. True unless the bucket is full.
    pub(super) fn refill(&mut self) -> bool {
        self.0 = (self.0 + 1).min(BURST);
        self.0 < BURST
    }
}

/// Time in which a token is added.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// Capacity.
pub(super) const BURST: u32 = 10;
