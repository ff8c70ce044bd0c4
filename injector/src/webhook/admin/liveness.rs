//! Liveness of the main runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// Last sign of life of the main runtime. Other threads serve the probes.
#[derive(Debug)]
pub struct Liveness {
    begin: Instant,
    /// Milliseconds since `begin`.
    last: AtomicU64,
}

impl Liveness {
    /// Returns a state with a sign of life at `now`.
    pub fn new(now: Instant) -> Arc<Self> {
        Arc::new(Self { begin: now, last: AtomicU64::new(0) })
    }

    /// True if the last sign of life is less than 10 s old at `now`.
    pub fn is_alive(&self, now: Instant) -> bool {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        now.duration_since(self.begin).saturating_sub(last) < LONGEST
    }

    /// Gives a sign of life every second, as long as the caller's runtime polls this task.
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
/// Age of the last sign of life from which the process is not alive. It is longer than a main
/// runtime under the heaviest load takes to poll any one task.
const LONGEST: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_without_heartbeat_is_not_alive() {
        let begin = Instant::now();
        let liveness = Liveness::new(begin);
        assert!(liveness.is_alive(begin + LONGEST / 2));
        assert!(!liveness.is_alive(begin + LONGEST));
        liveness.beat(begin + LONGEST);
        assert!(liveness.is_alive(begin + LONGEST + LONGEST / 2));
    }
}
