//! Difference between this machine's clock and the API server's.

use jiff::{SignedDuration, Timestamp};

/// Date in a response of an API server, with the local instants around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DatedResponse {
    /// Local instant at which the request was sent.
    pub(super) sent: Timestamp,
    /// Local instant at which the response head was received.
    pub(super) received: Timestamp,
    /// `Date` of the response, in whole seconds.
    pub(super) dated: Timestamp,
}

impl DatedResponse {
    /// Smallest difference of the clocks that explains the response: positive if this machine is
    /// ahead, negative if it is behind, zero if the clocks may agree.
    ///
    /// So a slow response, or a process that was paused, is never taken for a wrong clock.
    pub(super) fn ahead(&self) -> SignedDuration {
        let least = self.sent.duration_since(self.dated) - SignedDuration::from_secs(1);
        let most = self.received.duration_since(self.dated);
        if least.is_positive() { least } else { most.min(SignedDuration::ZERO) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + milliseconds).unwrap()
    }

    #[test]
    fn latency_is_not_taken_for_clock_skew() {
        for (sent, received, ahead) in [
            (0, 0, 0),
            (900, 950, 0),
            (-3_000, 4_000, 0),
            (61_000, 61_100, 60_000),
            (-60_100, -60_000, -60_000),
        ] {
            let answer = DatedResponse { sent: at(sent), received: at(received), dated: at(0) };
            assert_eq!(answer.ahead(), SignedDuration::from_millis(ahead), "{sent} {received}");
        }
    }

    proptest! {
        #[test]
        fn measured_skew_is_a_close_lower_bound(
            ahead in -10_000_000_i64..10_000_000,
            there in 0_i64..20_000,
            back in 0_i64..20_000,
            second in 0_i64..1_000,
        ) {
            // The API server stamps the response at `second` milliseconds of its own second 0.
            let stamped = at(second + ahead);
            let answer = DatedResponse {
                sent: stamped - SignedDuration::from_millis(there),
                received: stamped + SignedDuration::from_millis(back),
                dated: at(0),
            };
            let measured = answer.ahead().as_millis();
            prop_assert!(measured.abs() <= i128::from(ahead.abs()));
            prop_assert!(measured == 0 || (measured > 0) == (ahead > 0));
            let error = i128::from(ahead) - measured;
            prop_assert!(error.abs() <= i128::from(1_000 + there + back));
        }
    }
}
