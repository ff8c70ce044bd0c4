//! Polling of files for changes.

use std::convert::Infallible;
use std::time::Duration;

/// Polls content and offers every change; runs for as long as it is polled.
///
/// Content other than the `accepted` one is offered at each interval until it is accepted, so
/// content that is not valid yet is tried again. An error of `read` or `offer` is logged once,
/// followed by `kept`, which says what stays in use.
pub async fn follow<C: PartialEq>(
    interval: Duration,
    mut accepted: Option<C>,
    kept: &str,
    read: impl Fn() -> Result<C, String>,
    mut offer: impl FnMut(&C) -> Result<(), String>,
) -> Infallible {
    let mut warned = None;
    loop {
        let outcome = read().and_then(|content| {
            if accepted.as_ref() != Some(&content) {
                offer(&content)?;
                accepted = Some(content);
            }
            Ok(())
        });
        let reason = outcome.err();
        if let Some(reason) = reason.as_ref().filter(|reason| warned.as_ref() != Some(*reason)) {
            tracing::warn!("{reason}; {kept}");
        }
        warned = reason;
        tokio::time::sleep(interval).await;
    }
}
