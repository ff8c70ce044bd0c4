//! Limits and messages for a difference between this machine's clock and the API server's.

use jiff::SignedDuration;

/// True if a difference of the clocks is to be reported.
pub fn is_notable(ahead: SignedDuration) -> bool {
    ahead.abs() > NOTABLE
}

/// True if a difference of the clocks is too large to make a CA.
pub fn is_intolerable(ahead: SignedDuration) -> bool {
    ahead.abs() > INTOLERABLE
}

/// Message about a difference of the clocks, with a hint.
pub fn message(ahead: SignedDuration) -> String {
    let direction = if ahead.is_negative() { "behind" } else { "ahead of" };
    let distance = rounded(ahead.abs());
    let consequence =
        if is_intolerable(ahead) { "; this replica makes no CA until it is corrected" } else { "" };
    format!(
        "this machine's clock is {distance:#} {direction} the API server's{consequence}; hint: \
         check the time services of this node and of the API server's node"
    )
}

/// Rounds to whole minutes or tens of seconds, so that varying latency does not change the message.
fn rounded(distance: SignedDuration) -> SignedDuration {
    let step = if distance < SignedDuration::from_mins(2) { 10 } else { 60 };
    SignedDuration::from_secs((distance.as_secs() + step / 2) / step * step)
}

/// Half of the tolerance of Kubernetes' tokens and leases.
const NOTABLE: SignedDuration = SignedDuration::from_secs(30);
/// Certificates are backdated by this much, so a smaller difference does not make them invalid.
const INTOLERABLE: SignedDuration = SignedDuration::from_hours(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_messages_of_clock_skew() {
        let hours = SignedDuration::from_hours;
        assert!(!is_notable(SignedDuration::from_secs(-30)));
        assert!(is_notable(SignedDuration::from_secs(-31)));
        assert!(!is_intolerable(hours(1)));
        assert!(is_intolerable(hours(-2)));
        assert_eq!(
            message(hours(-2)),
            "this machine's clock is 2h behind the API server's; this replica makes no CA until it is corrected; hint: check the time services of this node and of the API server's node"
        );
        assert_eq!(message(hours(-2)), message(hours(-2) + SignedDuration::from_secs(20)));
        let minutes = message(SignedDuration::from_millis(90_400));
        assert!(minutes.contains("is 1m 30s ahead of the API server's; hint: "), "{minutes}");
    }
}
