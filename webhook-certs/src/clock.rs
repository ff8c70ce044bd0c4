//! How far this machine's clock is from the API server's, which says when certificates are valid.

use jiff::{SignedDuration, Timestamp};

/// One answer of an API server, with the instants of this machine around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When the request was sent.
    pub sent: Timestamp,
    /// When the head of the answer had come.
    pub received: Timestamp,
    /// What the answer says in its `Date`, in whole seconds.
    pub dated: Timestamp,
}

impl Answer {
    /// The least by which this machine's clock must be ahead for the answer to have come like this;
    /// negative where it is behind, and nothing where both clocks may agree.
    ///
    /// An answer that took long, or a process that stood still meanwhile, is thus never taken for a
    /// wrong clock.
    pub fn ahead(&self) -> SignedDuration {
        let least = self.sent.duration_since(self.dated) - SignedDuration::from_secs(1);
        let most = self.received.duration_since(self.dated);
        if least.is_positive() { least } else { most.min(SignedDuration::ZERO) }
    }
}

/// Tells whether people should know of a clock that is so far ahead or behind.
pub fn is_notable(ahead: SignedDuration) -> bool {
    ahead.abs() > NOTABLE
}

/// Tells whether a clock is so far ahead or behind that no CA may be made by it.
pub fn is_intolerable(ahead: SignedDuration) -> bool {
    ahead.abs() > INTOLERABLE
}

/// Says it in words, with what to do about it.
pub fn complaint(ahead: SignedDuration) -> String {
    let direction = if ahead.is_negative() { "behind" } else { "ahead of" };
    let distance = rounded(ahead.abs());
    let consequence =
        if is_intolerable(ahead) { "; no CA is made here until it is set" } else { "" };
    format!(
        "this machine's clock is {distance:#} {direction} the API server's{consequence}; hint: see \
         whether the time service of the node runs, and that of the API server's node"
    )
}

/// To whole minutes or tens of seconds: answers come more or less late, and what is said of the same
/// clock should stay the same.
fn rounded(distance: SignedDuration) -> SignedDuration {
    let step = if distance < SignedDuration::from_mins(2) { 10 } else { 60 };
    SignedDuration::from_secs((distance.as_secs() + step / 2) / step * step)
}

/// Half of what tokens and leases of Kubernetes bear.
const NOTABLE: SignedDuration = SignedDuration::from_secs(30);
/// By as much certificates are dated back, so that a wrong clock does not make them invalid.
const INTOLERABLE: SignedDuration = SignedDuration::from_hours(1);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + milliseconds).unwrap()
    }

    #[test]
    fn an_answer_that_may_be_explained_by_its_way_is_no_skew() {
        for (sent, received, ahead) in [
            (0, 0, 0),
            (900, 950, 0),
            (-3_000, 4_000, 0),
            (61_000, 61_100, 60_000),
            (-60_100, -60_000, -60_000),
        ] {
            let answer = Answer { sent: at(sent), received: at(received), dated: at(0) };
            assert_eq!(answer.ahead(), SignedDuration::from_millis(ahead), "{sent} {received}");
        }
    }

    #[test]
    fn limits_and_words() {
        let hours = SignedDuration::from_hours;
        assert!(!is_notable(SignedDuration::from_secs(-30)));
        assert!(is_notable(SignedDuration::from_secs(-31)));
        assert!(!is_intolerable(hours(1)));
        assert!(is_intolerable(hours(-2)));
        assert_eq!(
            complaint(hours(-2)),
            "this machine's clock is 2h behind the API server's; no CA is made here until it is \
             set; hint: see whether the time service of the node runs, and that of the API \
             server's node"
        );
        assert_eq!(complaint(hours(-2)), complaint(hours(-2) + SignedDuration::from_secs(20)));
        let minutes = complaint(SignedDuration::from_millis(90_400));
        assert!(minutes.contains("is 1m 30s ahead of the API server's; hint: "), "{minutes}");
    }

    proptest! {
        #[test]
        fn what_is_measured_is_never_more_than_what_is_and_near_it(
            ahead in -10_000_000_i64..10_000_000,
            there in 0_i64..20_000,
            back in 0_i64..20_000,
            second in 0_i64..1_000,
        ) {
            // The API server stamps its answer at `second` milliseconds of its own second 0.
            let stamped = at(second + ahead);
            let answer = Answer {
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
