//! Suspended processes.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::fixture::Fixture;

/// A12
pub(crate) async fn replica_frozen_past_its_leaf_expiry_serves_at_once(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    fixture.install(1).await?;
    let mut slowest = Duration::ZERO;
    for _ in 0..fixture.pace().rounds {
        fixture.replicas[0].pause()?;
        tokio::time::sleep(fixture.pace().leaf_lifetime + Duration::from_secs(1)).await;
        fixture.replicas[0].resume()?;
        let begin = Instant::now();
        fixture.until_injected().await?;
        slowest = slowest.max(begin.elapsed());
    }
    let load = fixture.load();
    load.until_admitted(100).await?;
    let tally = load.stop().await?;
    fixture.tell(&tally, &format!("injecting {slowest:.1?} after it went on, at most"))?;
    tally.expect_no_failure()
}
