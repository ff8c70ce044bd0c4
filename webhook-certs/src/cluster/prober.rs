//! Trust probe: a dry run of a `ConfigMap`'s creation that our entry reviews.

use std::convert::Infallible;

use tokio::sync::{Notify, watch};

use super::api::ClusterApi;
use super::call_error::{CallError, CallErrorCause};
use super::probe_result::{ProbeFailure, failure};
use crate::options::Options;
use crate::rotation::ProbeCause;

/// Result of the latest probe; `None` before the first.
pub(super) type LatestProbe = Option<Result<(), ProbeFailure>>;

/// True if the results need no new report.
pub(super) fn is_like(one: &LatestProbe, other: &LatestProbe) -> bool {
    match (one, other) {
        (Some(Err(one)), Some(Err(other))) => one.is_like(other),
        (one, other) => one == other,
    }
}

/// Probes at each interval, and wakes the reconciler if the result changed.
pub(super) async fn run(
    api: &ClusterApi,
    options: &Options,
    probed: &watch::Sender<LatestProbe>,
    changed: &Notify,
) -> Infallible {
    loop {
        // API servers need time to learn of a newly published bundle.
        tokio::time::sleep(options.parameters.trust_probe_interval).await;
        let outcome = probe(api).await;
        // Errors of the API server itself say nothing about the webhook.
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

async fn probe(api: &ClusterApi) -> Result<Result<(), ProbeFailure>, CallError> {
    let target = match api.probe_target().await? {
        Ok(target) => target,
        Err(message) => {
            let cause = ProbeCause::NotConfigured;
            return Ok(Err(ProbeFailure { cause, message, other_webhook: None }));
        }
    };
    match api.create_probe().await {
        Ok(()) => Ok(Ok(())),
        Err(CallError { cause: CallErrorCause::Rejected { code, message }, .. }) => {
            Ok(failure(code, &message, &target).map_or(Ok(()), Err))
        }
        // Webhooks have a timeout of at most 30 s, and the API server waits no longer.
        Err(error) => Err(error),
    }
}
