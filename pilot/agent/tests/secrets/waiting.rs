//! Waiting for conditions without blocking the runtime.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

/// Waits for a condition.
pub(crate) async fn eventually<T, E: Debug, F: Future<Output = Result<T, E>>>(
    what: &str,
    mut probe: impl FnMut() -> F,
) -> T {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    loop {
        match probe().await {
            Ok(found) => return found,
            Err(reason) => {
                assert!(tokio::time::Instant::now() < deadline, "waited until {what}: {reason:?}");
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
