//! The trust probe, carried out: a dry run of a `ConfigMap`'s creation that our entry reviews.

use std::convert::Infallible;

use tokio::sync::{Notify, watch};

use super::call_error::CallError;
use super::objects::Objects;
use crate::options::Options;
use crate::probe::{ProbeCause, ProbeFailure, failure};

/// How the latest probe ended; nothing until there was one.
pub(super) type Probed = Option<Result<(), ProbeFailure>>;

/// Tells whether there is nothing new in an outcome.
pub(super) fn is_like(one: &Probed, other: &Probed) -> bool {
    match (one, other) {
        (Some(Err(one)), Some(Err(other))) => one.is_like(other),
        (one, other) => one == other,
    }
}

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
                let outcome = Some(outcome);
                let is_news = !is_like(before, &outcome);
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
    let target = match objects.probe_target().await? {
        Ok(target) => target,
        Err(message) => {
            let cause = ProbeCause::NotConfigured;
            return Ok(Err(ProbeFailure { cause, message, other_webhook: None }));
        }
    };
    match objects.create_probe().await {
        Ok(()) => Ok(Ok(())),
        Err(CallError::Refused { code, message, .. }) => {
            Ok(failure(code, &message, &target).map_or(Ok(()), Err))
        }
        // A webhook's time limit is at most 30 s, and so is what the API server waits.
        Err(error) => Err(error),
    }
}
