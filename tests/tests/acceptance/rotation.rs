//! Rotation of CAs while pods are created all the time.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::wait;
use jiff::Timestamp;
use webhook_certs::bundle::TrustedCa;

use crate::fixture::Fixture;
use crate::load::Load;

/// A3
pub(crate) async fn consecutive_rotations_fail_no_admission(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    let lifetime = fixture.pace().authority_lifetime.as_secs();
    fixture.flag("authority-lifetime", &format!("{lifetime}s"));
    fixture.flag("write-interval", "2s");
    fixture.install(2).await?;
    let load = fixture.load();
    let first = fixture.state().await?.active.ca().clone();
    let mut before = first.clone();
    for _ in 0..fixture.pace().rotations {
        before = until_replaced(fixture, &load, &before).await?;
    }
    fixture.until_phase("steady").await?;
    let state = fixture.until_published().await?;
    ensure!(!state.bundle().certificates().contains(&first), "the first CA is still trusted");
    load.until_admitted(100).await?;
    let tally = load.stop().await?;
    fixture.tell(&tally, &format!("{} rotations", fixture.pace().rotations))?;
    tally.expect_no_failure()
}

/// A4
pub(crate) async fn replica_killed_during_a_rotation_fails_no_admission(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    fixture.flag("write-interval", "1s");
    fixture.install(2).await?;
    let load = fixture.load();
    let mut kills = Vec::new();
    let pace = *fixture.pace();
    for round in 0..pace.rounds as usize {
        let before = fixture.state().await?.active.ca().clone();
        fixture.ask_for_rotation().await?;
        // The phase is in the Secret, but perhaps in no entry yet.
        let prepared = fixture.until_phase("prepared").await?;
        kills.push(fixture.kill_and_replace(round % 2).await?);
        until(prepared.phase_since, pace.propagation_delay.mul_f64(0.9)).await;
        kills.push(fixture.kill_and_replace((round + 1) % 2).await?);
        let activated = fixture.until_phase("activated").await?;
        kills.push(fixture.kill_and_replace(round % 2).await?);
        until(activated.phase_since, pace.retire_delay().mul_f64(0.95)).await;
        kills.push(fixture.kill_and_replace((round + 1) % 2).await?);
        fixture.until_phase("steady").await?;
        kills.push(fixture.kill_and_replace(round % 2).await?);
        let after = fixture.until_published().await?;
        ensure!(!after.active.ca().is_same_signer(&before), "the CA is the same");
    }
    load.until_admitted(100).await?;
    let mut tally = load.stop().await?;
    let lost = tally.excuse(|failure| kills.iter().any(|kill| failure.broke_off_in(kill)));
    let more = format!("{} kills, {lost} calls in flight lost with a killed process", kills.len());
    fixture.tell(&tally, &more)?;
    tally.expect_no_failure()
}

/// A5
pub(crate) async fn hanging_api_server_during_a_rotation_is_harmless(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    fixture.flag("write-interval", "1s");
    fixture.install(2).await?;
    let load = fixture.load();
    let pace = *fixture.pace();
    // Afterwards it has as much time as any machine to catch up.
    let hang = pace.propagation_delay.saturating_sub(TO_CATCH_UP);
    let mut pauses = Vec::new();
    fixture.ask_for_rotation().await?;
    for phase in ["prepared", "activated", "steady"] {
        fixture.until_phase(phase).await?;
        let paused = Instant::now();
        fixture.shared.servers.pause(HANGING)?;
        tokio::time::sleep(hang).await;
        fixture.shared.servers.resume(HANGING)?;
        pauses.push((paused, Instant::now()));
        load.until_admitted(10).await?;
    }
    fixture.until_published().await?;
    load.until_admitted(100).await?;
    let mut tally = load.stop().await?;
    // A call that began before or during the suspension may break off or time out. A certificate
    // error is not excused.
    let lost = tally.excuse(|failure| {
        let is_meanwhile = |(paused, resumed): &(Instant, Instant)| {
            failure.began < *resumed && failure.ended > *paused
        };
        failure.server == HANGING
            && !failure.message.contains("x509")
            && pauses.iter().any(is_meanwhile)
    });
    let more =
        format!("{} times {hang:?}, {lost} calls of the hanging one were lost", pauses.len());
    fixture.tell(&tally, &more)?;
    tally.expect_no_failure()
}

/// Waits until another CA signs, and returns it.
async fn until_replaced(
    fixture: &Fixture<'_>,
    load: &Load,
    before: &TrustedCa,
) -> Result<TrustedCa> {
    let timeout = 2 * fixture.pace().authority_lifetime;
    wait::until_async_within("another CA signs", timeout, async || {
        let tally = load.tally();
        // Waiting longer would only hide the reason.
        if !tally.failures.is_empty() {
            return Ok(Err(anyhow::anyhow!("{:?}: {tally}", fixture.state().await?.phase)));
        }
        let active = fixture.state().await?.active.ca().clone();
        ensure!(!active.is_same_signer(before), "the same signs");
        Ok(Ok(active))
    })
    .await?
}

/// Waits until this time has passed since the timestamp.
async fn until(since: Timestamp, delay: Duration) {
    let passed = Timestamp::now().duration_since(since).unsigned_abs();
    tokio::time::sleep(delay.saturating_sub(passed)).await;
}

const HANGING: usize = 1;
const TO_CATCH_UP: Duration = Duration::from_secs(2);
