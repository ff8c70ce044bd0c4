//! Content of files that changes while a process uses it.

use std::convert::Infallible;
use std::time::Duration;

/// Follows content for as long as it is polled, and never returns.
///
/// At each look, content other than the `accepted` one is offered, until it is accepted: what is
/// not valid yet is tried again. A reason against it is logged once, followed by `kept`, which
/// tells what is used meanwhile.
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
