//! Time limit of a call, from the API server's timeout.

use std::time::Duration;

/// Returns the time limit of a call: the API server's timeout (`?timeout=10s`) less half a second,
/// so that the response arrives in time, and never more than `ceiling`.
///
/// A timeout below one second is halved. Without a valid timeout in the query the limit is
/// `ceiling`.
pub fn budget(query: Option<&str>, ceiling: Duration) -> Duration {
    let timeout = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter_map(|pair| pair.strip_prefix("timeout="))
        .find_map(|text| go_duration::non_negative(text).ok());
    let Some(timeout) = timeout else {
        return ceiling;
    };
    timeout.saturating_sub(MARGIN).max(timeout / 2).min(ceiling)
}

const MARGIN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_leaves_time_for_the_answer() {
        let table = [
            (None, 9000),
            (Some(""), 9000),
            (Some("timeout=10s"), 9000),
            (Some("timeout=30s"), 9000),
            (Some("timeout=5s"), 4500),
            (Some("dryRun=All&timeout=1s"), 500),
            (Some("timeout=600ms"), 300),
            (Some("timeout=soon"), 9000),
            (Some("timeout=0"), 0),
        ];
        for (query, milliseconds) in table {
            let budget = budget(query, Duration::from_secs(9));
            assert_eq!(budget, Duration::from_millis(milliseconds), "{query:?}");
        }
    }
}
