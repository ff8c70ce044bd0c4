//! Attempts until one succeeds.

use std::time::Duration;

/// Repeats an attempt each second until it succeeds. An error is logged unless it is the last one
/// again.
pub(crate) async fn until_ok<T, F>(mut attempt: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let mut last = String::new();
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(error) if error == last => {}
            Err(error) => {
                tracing::warn!("{error}");
                last = error;
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

const AGAIN: Duration = Duration::from_secs(1);
