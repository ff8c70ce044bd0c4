//! First starts.

use std::time::Instant;

use anyhow::{Result, ensure};
use e2e::wait;

use crate::fixture::Fixture;
use crate::load::Tally;

/// A1
pub(crate) async fn cold_start_serves_once_the_configuration_is_applied(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    let begin = Instant::now();
    fixture.start(2)?;
    fixture.until_ready()?;
    let ready = begin.elapsed();
    let begin = Instant::now();
    fixture.configure().await?;
    fixture.until_injected().await?;
    let injected = begin.elapsed();
    let load = fixture.load();
    load.until_admitted(100).await?;
    let tally = load.stop().await?;
    fixture.tell(&tally, &format!("ready after {ready:.1?}, injecting after {injected:.1?}"))?;
    tally.expect_no_failure()
}

/// A2
pub(crate) async fn five_simultaneous_replicas_create_one_ca(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    for round in 0..fixture.pace().starts {
        let mut fresh =
            Fixture::set(fixture.shared, "five_simultaneous_replicas_create_one_ca").await?;
        fresh.configure().await?;
        fresh.start(5)?;
        fresh.until_ready()?;
        let state = fresh.until_published().await?;
        ensure!(state.generation == 1, "round {round}: generation {}", state.generation);
        for replica in &fresh.replicas {
            replica.until_metric("sidecar_injector_webhook_trusted", |trusted| trusted == 1)?;
        }
        fresh.until_injected().await?;
        // Replicas that have settled write nothing.
        let looks = fresh.looks()?;
        wait::until_async("each of them looks again", async || {
            let further = fresh.looks()? - looks;
            ensure!(further >= 3 * fresh.replicas.len(), "{further} further looks");
            Ok(())
        })
        .await?;
        let secrets = fresh.writes("secrets")?;
        ensure!(secrets == 1, "round {round}: {secrets} writes of the Secret");
        let patches = fresh.writes("mutatingwebhookconfigurations")?;
        ensure!(patches <= 5, "round {round}: {patches} writes of the webhook configuration");
        fresh.tell(&Tally::default(), "")?;
    }
    Ok(())
}
