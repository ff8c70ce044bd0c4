//! Rate limit of writes to one object or file.

use jiff::{SignedDuration, Timestamp};

/// Allows a burst of writes, and then one per interval.
///
/// Two controllers that disagree about an object would otherwise write as fast as they can, which
/// has taken an API server down (istio/istio#36478).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteBudget {
    burst: u32,
    interval: SignedDuration,
    left: u32,
    counted: Timestamp,
}

impl WriteBudget {
    /// Creates a budget with a whole burst.
    pub fn new(burst: u32, interval: SignedDuration, now: Timestamp) -> Self {
        Self { burst, interval, left: burst, counted: now }
    }

    /// Takes one write; an error is the time to wait for it.
    pub fn take(&mut self, now: Timestamp) -> Result<(), SignedDuration> {
        self.refill(now);
        if self.left == 0 {
            return Err(self.interval - now.duration_since(self.counted));
        }
        if self.left == self.burst {
            self.counted = now;
        }
        self.left -= 1;
        Ok(())
    }

    /// Gives back a write that failed.
    pub fn give_back(&mut self) {
        self.left = self.burst.min(self.left + 1);
    }

    fn refill(&mut self, now: Timestamp) {
        // After a clock was set back, writes must not wait until it has caught up.
        if now < self.counted {
            self.counted = now;
        }
        while self.left < self.burst && now.duration_since(self.counted) >= self.interval {
            self.left += 1;
            self.counted += self.interval;
            if self.interval.is_zero() {
                self.left = self.burst;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn failed_write_counts_as_none() {
        let mut budget = WriteBudget::new(1, SignedDuration::from_secs(5), at(0));
        for _ in 0..3 {
            assert_eq!(budget.take(at(0)), Ok(()));
            budget.give_back();
        }
        assert_eq!(budget.take(at(0)), Ok(()));
        assert!(budget.take(at(0)).is_err());
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn writes_are_free_within_the_burst_then_one_per_interval() {
        let mut budget = WriteBudget::new(2, SignedDuration::from_secs(30), at(0));
        assert_eq!(budget.take(at(100)), Ok(()));
        assert_eq!(budget.take(at(100)), Ok(()));
        assert_eq!(budget.take(at(110)), Err(SignedDuration::from_secs(20)));
        assert_eq!(budget.take(at(130)), Ok(()));
        assert_eq!(budget.take(at(131)), Err(SignedDuration::from_secs(29)));
    }

    #[test]
    fn a_clock_set_back_delays_a_write_by_one_interval() {
        let mut budget = WriteBudget::new(1, SignedDuration::from_secs(30), at(1000));
        assert_eq!(budget.take(at(1000)), Ok(()));
        assert_eq!(budget.take(at(10)), Err(SignedDuration::from_secs(30)));
        assert_eq!(budget.take(at(40)), Ok(()));
    }

    #[test]
    fn some_writes_are_free_and_the_others_wait() {
        let mut budget = WriteBudget::new(5, SignedDuration::from_secs(5), at(0));
        let spent = (0..10).filter(|_| budget.take(at(1)).is_ok()).count();
        assert_eq!(spent, 5);
        assert_eq!(budget.take(at(3)), Err(SignedDuration::from_secs(3)));
        assert_eq!(budget.take(at(6)), Ok(()));
        assert!(budget.take(at(7)).is_err());
        // After a quiet time it is full again, and not fuller.
        let spent = (0..10).filter(|_| budget.take(at(1_000)).is_ok()).count();
        assert_eq!(spent, 5);
    }

    proptest! {
        #[test]
        fn writes_never_exceed_burst_plus_intervals(
            steps in prop::collection::vec(0_i64..50, 1..200),
            burst in 1_u32..6,
            interval in 1_i64..40,
        ) {
            let mut budget = WriteBudget::new(burst, SignedDuration::from_secs(interval), at(0));
            let (mut now, mut taken) = (0, 0);
            for step in steps {
                now += step;
                taken += i64::from(budget.take(at(now)).is_ok());
                prop_assert!(taken <= i64::from(burst) + now / interval);
            }
        }
    }
}
