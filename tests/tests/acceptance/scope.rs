//! Pods that must start even without the injector.

use anyhow::{Result, bail, ensure};

use crate::load::{self, Tally};
use crate::stage::{Stage, eventually};

/// A22
pub(crate) async fn without_any_replica_the_cluster_can_still_repair_itself(
    stage: &mut Stage<'_>,
) -> Result<()> {
    stage.configure().await?;
    for client in &stage.world.admins {
        eventually("pods wait for an injector", async || {
            match load::create(client.clone()).await {
                Err(error) if format!("{error:#}").contains("failed calling webhook") => Ok(()),
                other => bail!("{other:?}"),
            }
        })
        .await?;
        for namespace in ["kube-system", "istio-system", "default"] {
            let pod = load::create_plain(client.clone(), namespace).await?;
            ensure!(pod.containers.len() == 1, "{namespace}: it was injected");
        }
    }
    stage.tell(&Tally::default(), "")
}
