//! Limit of the rate of new streams.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::time::{Instant, sleep_until};

use crate::environment::MAX_REQUESTS;

/// Limit of the rate of new streams: a token bucket, which is full after a second. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct StreamRate(Option<Arc<Bucket>>);

#[derive(Debug)]
struct Bucket {
    /// Time of a token.
    token: Duration,
    /// Time at which the bucket is full.
    full: Mutex<Instant>,
}

/// Stream that would have to wait for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "too many streams are opened at once; hint: the proxy tries again, or raise {MAX_REQUESTS}"
)]
pub struct TooManyStreams;

impl StreamRate {
    /// Limits the streams per second; `None` for no limit.
    pub fn new(limit: Option<NonZeroU32>) -> Self {
        Self(limit.map(|limit| {
            let token = Duration::from_secs(1) / limit.get();
            Arc::new(Bucket { token, full: Mutex::new(Instant::now()) })
        }))
    }

    /// Admits a stream when its turn has come.
    pub async fn admit(&self) -> Result<(), TooManyStreams> {
        let Some(bucket) = &self.0 else { return Ok(()) };
        sleep_until(bucket.take(Instant::now())?).await;
        Ok(())
    }
}

impl Bucket {
    /// Takes a token. Returns the time from which it is there.
    fn take(&self, now: Instant) -> Result<Instant, TooManyStreams> {
        // The only change is one assignment.
        let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        let next = (*full).max(now) + self.token;
        let turn = next.checked_sub(BURST).unwrap_or(now).max(now);
        if turn > now + LONGEST_WAIT {
            return Err(TooManyStreams);
        }
        *full = next;
        Ok(turn)
    }
}

/// Time in which the bucket fills.
const BURST: Duration = Duration::from_secs(1);
/// A client that waits for longer gets an error, after which it waits by itself.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn streams_beyond_the_burst_wait_and_then_fail() {
        let rate = StreamRate::new(NonZeroU32::new(10));
        let start = Instant::now();
        for _ in 0..10 {
            rate.admit().await.unwrap();
        }
        assert_eq!(start.elapsed(), Duration::ZERO, "a burst of a second");
        rate.admit().await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_millis(100));

        let bucket = rate.0.as_deref().unwrap();
        let outcomes: Vec<_> = (0..11).map(|_| bucket.take(Instant::now()).is_ok()).collect();
        assert_eq!(outcomes.iter().filter(|admitted| **admitted).count(), 10, "a second's wait");
        StreamRate::new(None).admit().await.unwrap();
    }
}
