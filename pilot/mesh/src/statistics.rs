//! Annotations about Envoy's statistics. The agent applies them, and the injector validates them.

use std::collections::BTreeMap;
use std::time::Duration;

/// Returns the non-empty items of a list between commas.
pub fn list(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
}

/// True for the name of a label in Prometheus, which may have dots and dashes besides.
pub fn is_tag(tag: &str) -> bool {
    tag.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)) && !tag.is_empty()
}

/// Description of the texts that [`is_tag`] accepts.
pub const TAG: &str = "letters, digits, `_`, `.` and `-`";

/// Returns the buckets of histograms by the prefix of their names; `None` if the text is no such
/// JSON object, or the bounds do not increase from above 0.
pub fn histogram_buckets(text: &str) -> Option<BTreeMap<String, Vec<f64>>> {
    let buckets: BTreeMap<String, Vec<f64>> = serde_json::from_str(text).ok()?;
    let increases = |bounds: &Vec<f64>| {
        bounds.first().is_some_and(|first| *first > 0.0)
            && bounds.iter().zip(bounds.iter().skip(1)).all(|(low, high)| low < high)
    };
    let is_valid = !buckets.contains_key("") && buckets.values().all(increases);
    is_valid.then_some(buckets)
}

/// Description of the texts that [`histogram_buckets`] accepts.
pub const HISTOGRAM_BUCKETS: &str = "a JSON object such as {\"cluster.xds-grpc\": [1, 10, 100]} \
                                     with a prefix of metrics and increasing bounds above 0";

/// Returns an interval within Envoy's bounds for flushing and for eviction.
pub fn interval(text: &str) -> Option<Duration> {
    let valid = Duration::from_millis(1)..Duration::from_secs(300);
    go_duration::positive(text).ok().filter(|duration| valid.contains(duration))
}

/// Description of the texts that [`interval`] accepts.
pub const INTERVAL: &str = "a duration from 1ms to less than 5m, such as 5s";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_need_increasing_bounds() {
        for (text, valid) in [
            ("{}", true),
            (r#"{"cluster.x": [1, 2.5, 10]}"#, true),
            (r#"{"cluster.x": [2, 1]}"#, false),
            (r#"{"cluster.x": [1, 1]}"#, false),
            (r#"{"cluster.x": [0, 1]}"#, false),
            (r#"{"cluster.x": []}"#, false),
            (r#"{"": [1]}"#, false),
            ("[1, 2]", false),
            ("", false),
        ] {
            assert_eq!(histogram_buckets(text).is_some(), valid, "{text}");
        }
    }

    #[test]
    fn intervals_are_within_envoys_bounds() {
        for (text, valid) in
            [("1ms", true), ("4m59s", true), ("5m", false), ("0s", false), ("5", false)]
        {
            assert_eq!(interval(text).is_some(), valid, "{text}");
        }
    }
}
