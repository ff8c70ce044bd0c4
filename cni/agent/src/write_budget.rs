//! Budget of writes, so that two programs that undo each other's changes do not do it all the time.

use std::time::{Duration, Instant};

/// Budget of writes: a few at once, then one per interval.
#[derive(Clone, Debug)]
pub struct WriteBudget {
    left: u32,
    since: Instant,
}

impl WriteBudget {
    /// Creates a full budget.
    pub fn new(now: Instant) -> Self {
        Self { left: MOST, since: now }
    }

    /// Spends a write, or returns the time until the next one.
    pub fn spend(&mut self, now: Instant) -> Result<(), Duration> {
        let elapsed = now.saturating_duration_since(self.since);
        let earned = u32::try_from(elapsed.as_secs() / INTERVAL.as_secs()).unwrap_or(MOST);
        self.left = self.left.saturating_add(earned).min(MOST);
        self.since = if self.left == MOST { now } else { self.since + INTERVAL * earned };
        match self.left {
            0 => Err(INTERVAL.saturating_sub(now.saturating_duration_since(self.since))),
            left => {
                self.left = left - 1;
                Ok(())
            }
        }
    }
}

/// Writes at once.
const MOST: u32 = 5;
const INTERVAL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_writes_are_free_and_the_others_wait() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut budget = WriteBudget::new(start);
        let spent = (0..10).filter(|_| budget.spend(at(1)).is_ok()).count();
        assert_eq!(spent, 5);
        assert_eq!(budget.spend(at(3)), Err(Duration::from_secs(3)));
        assert_eq!(budget.spend(at(6)), Ok(()));
        assert!(budget.spend(at(7)).is_err());
        // After a quiet time it is full again, and not fuller.
        let spent = (0..10).filter(|_| budget.spend(at(1_000)).is_ok()).count();
        assert_eq!(spent, 5);
    }
}
