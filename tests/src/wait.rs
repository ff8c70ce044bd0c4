//! Waiting for conditions instead of fixed times.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Calls `probe` until it returns `Ok`, and returns the value.
///
/// `Err` from the probe is the reason to wait. After the timeout the last reason becomes the error,
/// so a failed test says what was missing.
pub fn until<T, E: Display>(
    what: &str,
    patience: Duration,
    mut probe: impl FnMut() -> Result<T, E>,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        match probe() {
            Ok(found) => return Ok(found),
            Err(reason) if Instant::now() >= deadline => {
                bail!("waited {} s until {what}: {reason:#}", patience.as_secs())
            }
            Err(_) => thread::sleep(BETWEEN_PROBES),
        }
    }
}

const BETWEEN_PROBES: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_what_the_probe_found() {
        let mut asked = 0;
        let found = until("the third answer", Duration::from_secs(60), || {
            asked += 1;
            if asked == 3 { Ok(asked) } else { Err("too early") }
        });
        assert_eq!(found.unwrap(), 3);
    }

    #[test]
    fn gives_up_with_the_last_reason() {
        let error = until("never", Duration::ZERO, || Err::<(), _>("it rains")).unwrap_err();
        assert_eq!(error.to_string(), "waited 0 s until never: it rains");
    }
}
