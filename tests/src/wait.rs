//! Waiting for conditions instead of fixed times.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Timeout of a wait. Only a failing test reaches it, so one generous value suffices.
pub const TIMEOUT: Duration = Duration::from_secs(180);

/// Timeout of one request, below that of a wait: a request that hangs is one failed probe.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout of the answer to one packet, far longer than it takes on this machine: only a lost packet
/// waits so long.
pub const PACKET_TIMEOUT: Duration = Duration::from_secs(5);

/// Calls `probe` until it returns `Ok`, and returns the value.
///
/// `Err` from the probe is the reason to wait. After [`TIMEOUT`] the last reason becomes the error,
/// so a failed test says what was missing.
pub fn until<T, E: Display>(what: &str, probe: impl FnMut() -> Result<T, E>) -> Result<T> {
    until_within(what, TIMEOUT, probe)
}

/// Waits like [`until`], with a timeout that belongs to the promise under test.
pub fn until_within<T, E: Display>(
    what: &str,
    timeout: Duration,
    mut probe: impl FnMut() -> Result<T, E>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let begin = Instant::now();
        match probe() {
            Ok(found) => return Ok(found),
            Err(reason) if start.elapsed() >= timeout => return too_late(what, timeout, &reason),
            Err(_) => thread::sleep(pause(start.elapsed(), begin.elapsed())),
        }
    }
}

/// Waits like [`until`] without blocking the thread.
pub async fn until_async<T, E: Display>(
    what: &str,
    probe: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T> {
    until_async_within(what, TIMEOUT, probe).await
}

/// Waits like [`until_within`] without blocking the thread.
pub async fn until_async_within<T, E: Display>(
    what: &str,
    timeout: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let begin = Instant::now();
        match probe().await {
            Ok(found) => return Ok(found),
            Err(reason) if start.elapsed() >= timeout => return too_late(what, timeout, &reason),
            Err(_) => tokio::time::sleep(pause(start.elapsed(), begin.elapsed())).await,
        }
    }
}

fn too_late<T>(what: &str, timeout: Duration, reason: &impl Display) -> Result<T> {
    bail!("waited {} s until {what}: {reason:#}", timeout.as_secs())
}

/// Returns the pause after a probe: as long as the probe took, so that a wait takes at most half of
/// a core from the programs that it waits for; longer in a long wait, of which it is a small part.
fn pause(waited: Duration, probe: Duration) -> Duration {
    probe.min(LONGEST_PROBE).max((waited / 16).clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// The longest probe that has a pause as long: some wait by themselves.
const LONGEST_PROBE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_what_the_probe_found() {
        let mut asked = 0;
        let found = until("the third answer", || {
            asked += 1;
            if asked == 3 { Ok(asked) } else { Err("too early") }
        });
        assert_eq!(found.unwrap(), 3);
    }

    #[test]
    fn gives_up_with_the_last_reason() {
        let never = || Err::<(), _>("it rains");
        let error = until_within("never", Duration::ZERO, never).unwrap_err();
        assert_eq!(error.to_string(), "waited 0 s until never: it rains");
    }

    #[tokio::test]
    async fn asynchronous_wait_ends_the_same_way() {
        let mut asked = 0;
        let found = until_async("the third answer", async || {
            asked += 1;
            if asked == 3 { Ok(asked) } else { Err("too early") }
        });
        assert_eq!(found.await.unwrap(), 3);

        let never = async || Err::<(), _>("it rains");
        let error = until_async_within("never", Duration::ZERO, never).await.unwrap_err();
        assert_eq!(error.to_string(), "waited 0 s until never: it rains");
    }

    #[test]
    fn pause_follows_the_probe_and_the_wait() {
        let milliseconds = Duration::from_millis;
        assert_eq!(pause(Duration::ZERO, Duration::ZERO), SHORTEST_PAUSE);
        assert_eq!(pause(milliseconds(20), milliseconds(20)), milliseconds(20));
        assert_eq!(pause(milliseconds(480), milliseconds(1)), milliseconds(30));
        assert_eq!(pause(Duration::from_secs(9), Duration::ZERO), LONGEST_PAUSE);
        assert_eq!(pause(Duration::from_secs(9), Duration::from_secs(3)), LONGEST_PROBE);
    }
}
