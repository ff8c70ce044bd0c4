//! Liveness: whether the process still answers requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// Last sign of life of the main runtime, which threads of their own serve the probes beside.
#[derive(Debug)]
pub struct Liveness {
    begin: Instant,
    /// In milliseconds since `begin`.
    last: AtomicU64,
}

impl Liveness {
    /// Starts with a sign of life at `now`.
    pub fn new(now: Instant) -> Arc<Self> {
        Arc::new(Self { begin: now, last: AtomicU64::new(0) })
    }

    /// True if the last sign of life is not too long ago at `now`.
    pub fn is_alive(&self, now: Instant) -> bool {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        now.duration_since(self.begin).saturating_sub(last) < LONGEST
    }

    /// Gives a sign of life every second, for as long as the runtime of the caller gets to it.
    pub(in crate::webhook) async fn keep(self: Arc<Self>) {
        loop {
            self.beat(Instant::now());
            sleep(EVERY).await;
        }
    }

    fn beat(&self, now: Instant) {
        let passed = now.duration_since(self.begin).as_millis();
        self.last.store(u64::try_from(passed).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

const EVERY: Duration = Duration::from_secs(1);
/// Longer than a main runtime under the heaviest load takes to come to any one task.
const LONGEST: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_without_a_sign_of_life_is_not_alive() {
        let begin = Instant::now();
        let liveness = Liveness::new(begin);
        assert!(liveness.is_alive(begin + LONGEST / 2));
        assert!(!liveness.is_alive(begin + LONGEST));
        liveness.beat(begin + LONGEST);
        assert!(liveness.is_alive(begin + LONGEST + LONGEST / 2));
    }
}
