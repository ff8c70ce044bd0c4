//! The trust probe, carried out: a dry run of a `ConfigMap`'s creation that our entry reviews.

use std::convert::Infallible;

use tokio::sync::{Notify, watch};

use super::call_error::CallError;
use super::objects::Objects;
use crate::options::Options;
use crate::probe::{ProbeCause, ProbeFailure, failure};

/// How the latest probe ended; nothing until there was one.
pub(super) type Probed = Option<Result<(), ProbeFailure>>;

/// Probes after each interval, and wakes the upkeep when the outcome is another one.
pub(super) async fn run(
    objects: &Objects,
    options: &Options,
    probed: &watch::Sender<Probed>,
    changed: &Notify,
) -> Infallible {
    loop {
        // Of a bundle that was published just now an API server need not know yet.
        tokio::time::sleep(options.parameters.trust_probe_interval).await;
        let outcome = probe(objects).await;
        // What the API server itself fails at says nothing about the webhook.
        if let Ok(outcome) = outcome {
            let is_news = probed.send_if_modified(|before| {
                let word = |probed: &Probed| {
                    probed.as_ref().map(|probed| probed.as_ref().err().map(|error| error.cause))
                };
                let outcome = Some(outcome);
                let is_news = word(before) != word(&outcome);
                *before = outcome;
                is_news
            });
            if is_news {
                changed.notify_one();
            }
        }
    }
}

async fn probe(objects: &Objects) -> Result<Result<(), ProbeFailure>, CallError> {
    if let Some(message) = objects.probe_entry_complaint().await? {
        return Ok(Err(ProbeFailure { cause: ProbeCause::NotConfigured, message }));
    }
    match objects.create_probe().await {
        Ok(()) => Ok(Ok(())),
        Err(CallError::Refused { code, message, .. }) => {
            Ok(failure(code, &message).map_or(Ok(()), Err))
        }
        // A webhook's time limit is at most 30 s, and so is what the API server waits.
        Err(error) => Err(error),
    }
}
