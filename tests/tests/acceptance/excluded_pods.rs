//! Pods that must start even without the injector.

use anyhow::{Result, bail, ensure};
use e2e::wait;

use crate::fixture::Fixture;
use crate::load::{self, Tally};

/// A22
pub(crate) async fn cluster_can_recover_without_any_replica(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    fixture.configure().await?;
    for client in &fixture.shared.admins {
        wait::until_async("pods wait for an injector", async || {
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
    fixture.tell(&Tally::default(), "")
}
