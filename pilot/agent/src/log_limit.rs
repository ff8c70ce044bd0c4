//! Rate limit of a failure that may repeat quickly, and of its message.

use std::time::Duration;

use tokio::time::{Instant, sleep};

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

    /// Counts a failure that lasts, such as `EMFILE` of `accept`, and waits, so that the next
    /// attempt does not follow at once. `log` gets the number of failures since the last message.
    pub async fn pause(&mut self, log: impl FnOnce(u64)) {
        if let Some(count) = self.count(Instant::now()) {
            log(count);
        }
        sleep(PAUSE).await;
    }
}

const PAUSE: Duration = Duration::from_millis(100);

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

    #[tokio::test(start_paused = true)]
    async fn lasting_failure_pauses_and_is_logged_rarely() {
        let (mut limit, start, mut logged) = (LogLimit::default(), Instant::now(), Vec::new());
        for _ in 0..250 {
            limit.pause(|count| logged.push(count)).await;
        }
        assert_eq!((start.elapsed(), logged), (250 * PAUSE, vec![1, 100, 100]));
    }
}
