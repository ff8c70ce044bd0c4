//! Clock of the machine's timers.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::machine::Timer;

/// Armed timers with their times.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeMap<Timer, Instant>);

impl Timers {
    pub(super) fn arm(&mut self, timer: Timer, delay: Duration) {
        self.0.insert(timer, Instant::now() + delay);
    }

    pub(super) fn disarm(&mut self, timer: Timer) {
        self.0.remove(&timer);
    }

    /// Waits for the next timer and stops it.
    pub(super) async fn next(&mut self) -> Timer {
        let next = self.0.iter().min_by_key(|(_, at)| **at);
        let Some((timer, at)) = next.map(|(timer, at)| (*timer, *at)) else {
            return pending().await;
        };
        sleep_until(at).await;
        self.0.remove(&timer);
        timer
    }
}
