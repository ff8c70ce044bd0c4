//! Rate limit of a message that may repeat quickly.

use std::time::Duration;

use tokio::time::Instant;

/// Counter of an event that is logged at most once per [`INTERVAL`].
#[derive(Debug, Default)]
pub struct LogLimit {
    logged: Option<Instant>,
    events: u64,
}

/// Shortest time between two messages.
pub const INTERVAL: Duration = Duration::from_secs(10);

impl LogLimit {
    /// Counts an event. Returns the number of events since the last message if the event is to be
    /// logged.
    pub fn count(&mut self, now: Instant) -> Option<u64> {
        self.events += 1;
        if self.logged.is_some_and(|logged| now.duration_since(logged) < INTERVAL) {
            return None;
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_event_is_logged_once_per_interval() {
        let (mut limit, start) = (LogLimit::default(), Instant::now());
        assert_eq!(limit.count(start), Some(1));
        assert_eq!(limit.count(start + INTERVAL / 3), None);
        assert_eq!(limit.count(start + INTERVAL / 2), None);
        assert_eq!(limit.count(start + INTERVAL), Some(3));
        assert_eq!(limit.count(start + 3 * INTERVAL), Some(1));
    }
}
