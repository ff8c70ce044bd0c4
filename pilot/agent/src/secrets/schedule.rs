//! Times of renewals and retries.

use std::time::{Duration, SystemTime};

use crate::config::LARGEST_GRACE_RATIO;

/// Validity of a certificate, and its receipt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lifetime {
    /// First instant of validity.
    pub not_before: SystemTime,
    /// Last instant of validity.
    pub not_after: SystemTime,
    /// Wall clock at receipt.
    pub received: SystemTime,
}

impl Lifetime {
    /// Remaining life at receipt. Signers backdate certificates, so `not_before` is no start.
    fn life(&self) -> Duration {
        self.not_after.duration_since(self.received).unwrap_or_default()
    }
}

/// Remaining fraction of the life at which a certificate is renewed, at most
/// [`LARGEST_GRACE_RATIO`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraceRatio(f64);

impl GraceRatio {
    /// Draws a ratio from `ratio` ± `jitter`. `random` lies in 0 to 1.
    pub fn draw(ratio: f64, jitter: f64, random: f64) -> Self {
        let drawn = ratio + jitter * (2.0 * random - 1.0);
        // Not a number becomes an early renewal, which is noticed.
        let drawn = if drawn.is_nan() { 1.0 } else { drawn };
        Self(drawn.clamp(0.0, LARGEST_GRACE_RATIO))
    }
}

/// Clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The wall clock, which may jump.
    pub now: SystemTime,
    /// Monotonic time since the receipt of the certificate. It stops while the machine is
    /// suspended.
    pub elapsed: Duration,
}

/// Decision about a certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Renewal {
    /// Renew the certificate now.
    Due,
    /// Decide again after this time.
    Wait(Duration),
}

/// Decides whether a certificate is due for renewal.
///
/// Both clocks count: the wall clock runs on while a machine is suspended, and the monotonic clock
/// does not stop a renewal when the wall clock is set back.
pub fn renewal(lifetime: &Lifetime, ratio: GraceRatio, clocks: Clocks) -> Renewal {
    let used = lifetime.life().mul_f64(1.0 - ratio.0);
    let by_wall_clock = clocks.now.duration_since(lifetime.received).unwrap_or_default();
    let left = used.saturating_sub(by_wall_clock.max(clocks.elapsed));
    // A signer with tiny lifetimes must not be asked without end.
    if clocks.elapsed < SHORTEST {
        return Renewal::Wait(SHORTEST);
    }
    // A clock that was ahead at receipt and has been corrected makes the lifetime meaningless.
    if left.is_zero() || clocks.now + TOLERANCE < lifetime.not_before {
        Renewal::Due
    } else {
        Renewal::Wait(left.min(CHECK_INTERVAL))
    }
}

/// Exponential delays between failed attempts.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Upper bound of the first delay.
    pub first: Duration,
    /// Upper bound of all delays.
    pub longest: Duration,
}

impl Backoff {
    /// Returns the delay after a number of failures, at least half of its upper bound.
    ///
    /// `random` lies in 0 to 1.
    pub fn delay(&self, failures: u32, random: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let bound = self.first.saturating_mul(1 << doublings).min(self.longest);
        bound.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
    }
}

/// Shortest time between two renewals.
const SHORTEST: Duration = Duration::from_secs(1);

/// Longest time between two looks at the wall clock.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Difference of clocks that is no error.
pub const TOLERANCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn received() -> SystemTime {
        UNIX_EPOCH + 20_000 * DAY
    }

    fn lifetime() -> Lifetime {
        let received = received();
        Lifetime { not_before: received - HOUR, not_after: received + DAY, received }
    }

    fn half() -> GraceRatio {
        GraceRatio::draw(0.5, 0.01, 0.5)
    }

    fn at(wall: i64, elapsed: Duration) -> Renewal {
        let seconds = Duration::from_secs(wall.unsigned_abs());
        let now = if wall < 0 { received() - seconds } else { received() + seconds };
        renewal(&lifetime(), half(), Clocks { now, elapsed })
    }

    #[test]
    fn certificate_is_renewed_at_half_of_its_life() {
        let wait = Renewal::Wait(CHECK_INTERVAL);
        let seconds = Duration::from_secs;
        let rows = [
            ("new", 0, seconds(0), Renewal::Wait(SHORTEST)),
            ("before the half", 12 * 3600 - 61, seconds(12 * 3600 - 61), wait),
            (
                "ten seconds before the half",
                12 * 3600 - 10,
                seconds(12 * 3600 - 10),
                Renewal::Wait(seconds(10)),
            ),
            ("the half", 12 * 3600, seconds(12 * 3600), Renewal::Due),
            ("expired", 25 * 3600, seconds(25 * 3600), Renewal::Due),
            ("suspended for a day", 24 * 3600, seconds(5), Renewal::Due),
            ("clock set back after the half", 60, seconds(12 * 3600), Renewal::Due),
            ("clock set back to the receipt's hour", -1800, seconds(60), wait),
            ("clock set back before the validity", -2 * 3600, seconds(60), Renewal::Due),
        ];
        for (case, wall, elapsed, expected) in rows {
            assert_eq!(at(wall, elapsed), expected, "{case}");
        }
    }

    #[test]
    fn expired_at_receipt_is_due() {
        let lifetime = Lifetime { not_after: received() - HOUR, ..lifetime() };
        let clocks = Clocks { now: received(), elapsed: Duration::ZERO };
        assert_eq!(renewal(&lifetime, half(), clocks), Renewal::Wait(SHORTEST));
        let clocks = Clocks { elapsed: SHORTEST, ..clocks };
        assert_eq!(renewal(&lifetime, half(), clocks), Renewal::Due);
    }

    #[test]
    fn certificate_is_used_for_a_tenth_of_its_life() {
        for (ratio, expected) in [(f64::NAN, 0.9), (1.0, 0.9), (-3.0, 0.0), (0.25, 0.25)] {
            assert_eq!(GraceRatio::draw(ratio, 0.0, 0.5), GraceRatio(expected));
        }
        let after = |elapsed| {
            let clocks = Clocks { now: received() + elapsed, elapsed };
            renewal(&lifetime(), GraceRatio::draw(1.0, 1.0, 1.0), clocks)
        };
        assert_eq!(after(2 * HOUR), Renewal::Wait(CHECK_INTERVAL));
        assert_eq!(after(3 * HOUR), Renewal::Due);
    }

    #[test]
    fn delays_double_up_to_the_longest() {
        let backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };
        let longest: Vec<_> = (1..=7).map(|n| backoff.delay(n, 1.0).as_secs()).collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 30, 30]);
        let shortest: Vec<_> = (1..=3).map(|n| backoff.delay(n, 0.0).as_millis()).collect();
        assert_eq!(shortest, [500, 1000, 2000]);
    }

    proptest! {
        #[test]
        fn renewal_is_due_within_the_jitter_of_the_ratio(
            life in 60_u64..8_000_000, random in 0.0_f64..=1.0, share in 0.0_f64..1.2,
        ) {
            let life = Duration::from_secs(life);
            let lifetime = Lifetime { not_after: received() + life, ..lifetime() };
            let ratio = GraceRatio::draw(0.5, 0.01, random);
            let elapsed = life.mul_f64(share);
            let clocks = Clocks { now: received() + elapsed, elapsed };
            match renewal(&lifetime, ratio, clocks) {
                Renewal::Due => prop_assert!(share >= 0.489),
                Renewal::Wait(wait) => {
                    prop_assert!(share <= 0.511);
                    prop_assert!(!wait.is_zero() && wait <= CHECK_INTERVAL);
                }
            }
        }

        #[test]
        fn clock_jumps_never_delay_a_renewal(
            jump in -100_000_000_i64..100_000_000, elapsed in 43_200_u64..200_000,
        ) {
            let renewal = at(jump, Duration::from_secs(elapsed));
            prop_assert_eq!(renewal, Renewal::Due);
        }

        #[test]
        fn delays_stay_within_their_bounds(failures in 1_u32.., random in 0.0_f64..=1.0) {
            let (first, longest) = (Duration::from_millis(500), Duration::from_secs(30));
            let delay = Backoff { first, longest }.delay(failures, random);
            prop_assert!(delay >= first / 2 && delay <= longest);
        }
    }
}
