//! Suspended processes.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::stage::Stage;

/// A12
pub(crate) async fn a_replica_that_was_frozen_for_longer_than_its_leaf_lives_serves_at_once(
    stage: &mut Stage<'_>,
) -> Result<()> {
    stage.install(1).await?;
    let mut slowest = Duration::ZERO;
    for _ in 0..stage.pace().rounds {
        stage.replicas[0].pause()?;
        tokio::time::sleep(stage.pace().leaf_lifetime + Duration::from_secs(1)).await;
        stage.replicas[0].resume()?;
        let begin = Instant::now();
        stage.until_injected().await?;
        slowest = slowest.max(begin.elapsed());
    }
    let load = stage.load();
    load.until_admitted(100).await?;
    let tally = load.stop().await?;
    stage.tell(&tally, &format!("injecting {slowest:.1?} after it went on, at most"))?;
    tally.expect_no_failure()
}
