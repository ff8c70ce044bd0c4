//! A deployment tool that keeps writing the bundle from before a rotation, ten times a second, while
//! an API server calls the webhook all the time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use jiff::SignedDuration;
use webhook_certs::bundle::Bundle;

use crate::deployer::apply_bundle;
use crate::fixture::Fixture;
use crate::reviewer::Reviewer;
use crate::rotation::{ask_for_rotation, hasten, in_service, shrunk, under_load, until_phase};

pub(crate) async fn continuously_reverted_bundle_fails_no_call(
    mut fixture: Fixture<'_>,
) -> Result<()> {
    hasten(&mut fixture);
    fixture.options.parameters.write_burst = 5;
    fixture.options.parameters.write_interval = SignedDuration::from_secs(5);
    let (one, two) = (fixture.replica().await?, fixture.replica().await?);
    let reviewers = [
        Reviewer::start(Arc::clone(&one.certificate)).await?,
        Reviewer::start(Arc::clone(&two.certificate)).await?,
    ];
    fixture.expose().await?;
    // Each call reaches both replicas, through one entry each.
    fixture.configure_each(reviewers[0].port, reviewers[1].port).await?;
    let old = in_service(&fixture).await?.bundle();
    let parameters = fixture.options.parameters;
    let siege = parameters.propagation_delay.unsigned_abs() * 3;
    let (_, calls) = under_load(&fixture, async {
        ask_for_rotation(&fixture).await?;
        // The next CA is never published for long enough to sign.
        until_phase(&fixture, "prepared").await?;
        besiege(&fixture, &old, siege).await?;
        ensure!(fixture.state().await?.phase.word() == "prepared", "the next CA signs");
        until_phase(&fixture, "activated").await
    })
    .await?;
    ensure!(calls > 20, "only {calls} calls");
    // This removes the signing CA, so calls may fail until the replicas have seen it.
    apply_bundle(&fixture, &old).await?;
    tokio::time::sleep(REPLICAS_LOOK).await;
    let siege = parameters.retire_delay.unsigned_abs().mul_f64(2.2);
    let (_, calls) = under_load(&fixture, async {
        besiege(&fixture, &old, siege).await?;
        let state = fixture.state().await?;
        ensure!(state.phase.word() == "activated", "{:?}", state.phase);
        // Once the reverts end, the rotation completes.
        until_phase(&fixture, "steady").await?;
        shrunk(&fixture).await
    })
    .await?;
    ensure!(calls > 20, "only {calls} calls");
    Ok(())
}

/// Writes the old bundle for some time.
async fn besiege(fixture: &Fixture<'_>, old: &Bundle, time: Duration) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < time {
        apply_bundle(fixture, old).await?;
        tokio::time::sleep(BETWEEN_REVERTS).await;
    }
    Ok(())
}

const BETWEEN_REVERTS: Duration = Duration::from_millis(100);
/// Time for a reconciliation after an event and one at a tick.
const REPLICAS_LOOK: Duration = Duration::from_secs(2);
