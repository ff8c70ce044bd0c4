//! Repair of the CA Secret.

use anyhow::{Context, Result, ensure};
use e2e::wait;
use k8s_openapi::ByteString;
use kube::api::{DeleteParams, PostParams};
use webhook_certs::secret::rotation_requests::{ROTATE, ROTATE_NOW};
use webhook_certs::status::Status;

use crate::fixture::Fixture;

pub(crate) async fn deleted_or_damaged_secret_is_restored_with_the_same_ca(
    fixture: Fixture<'_>,
) -> Result<()> {
    fixture.configure(443).await?;
    let (mut one, mut two) = (fixture.replica().await?, fixture.replica().await?);
    fixture.published().await?;
    let trusted = |status: &Status| status.trusted && status.generation == Some(1);
    one.until("the first is trusted", trusted).await?;
    two.until("the second is trusted", trusted).await?;
    let original = fixture.state().await?;
    let leaves = (one.leaf()?, two.leaf()?);
    let bundles = fixture.bundles().await?;
    let (secrets, name) = (fixture.secrets(), &fixture.options.secret_name);

    for round in 0..4 {
        let mut secret = secrets.get(name).await?;
        match round {
            0 => drop(secrets.delete(name, &DeleteParams::default()).await?),
            1 => {
                secret.data = None;
                secrets.replace(name, &PostParams::default(), &secret).await?;
            }
            2 => {
                let data = secret.data.as_mut().context("the Secret is empty")?;
                data.insert("active.key".to_owned(), ByteString(b"garbage".to_vec()));
                secrets.replace(name, &PostParams::default(), &secret).await?;
            }
            // An older copy of it, as from a backup.
            _ => {
                let older = original.write(secret);
                secrets.replace(name, &PostParams::default(), &older).await?;
            }
        }
        let restored = original.generation + round + 1;
        wait::until_async("the Secret is restored", async || {
            let state = fixture.state().await?;
            ensure!(state.generation == restored, "generation {}", state.generation);
            ensure!(state.active == original.active, "another CA");
            Ok(())
        })
        .await?;
        for replica in [&mut one, &mut two] {
            let caught_up = |status: &Status| status.generation == Some(restored);
            replica.until("the replica has seen it", caught_up).await?;
        }
    }
    ensure!(leaves == (one.leaf()?, two.leaf()?), "a leaf was replaced");
    ensure!(bundles == fixture.bundles().await?, "a bundle was changed");
    Ok(())
}

pub(crate) async fn immutable_secret_is_reported_and_mutable_once_deleted(
    fixture: Fixture<'_>,
) -> Result<()> {
    fixture.configure(443).await?;
    let mut replica = fixture.replica().await?;
    fixture.published().await?;
    let trusted = |status: &Status| status.trusted && status.generation == Some(1);
    replica.until("it is trusted", trusted).await?;
    let before = fixture.state().await?;
    let (secrets, name) = (fixture.secrets(), &fixture.options.secret_name);
    let mut secret = secrets.get(name).await?;
    secret.immutable = Some(true);
    let annotations = secret.metadata.annotations.get_or_insert_default();
    annotations.insert(ROTATE.to_owned(), ROTATE_NOW.to_owned());
    secrets.replace(name, &PostParams::default(), &secret).await?;
    let remedy =
        format!("`kubectl --namespace {} delete secret {name}`", fixture.options.namespace);
    fixture.wait_for_event(&["CASecretImmutable: ", &remedy]).await?;
    let status = fixture.program("status").output().await?;
    let said = String::from_utf8(status.stdout)?;
    ensure!(status.status.code() == Some(1) && said.contains(&remedy), "{said}");
    // No write was attempted, and the rest is unchanged.
    let written = replica.status.borrow().secret_writes;
    ensure!(written == 1 && fixture.state().await? == before, "{written} writes");
    ensure!(replica.status.borrow().trusted, "it is no longer trusted");

    secrets.delete(name, &DeleteParams::default()).await?;
    wait::until_async("it is back", async || {
        let secret = secrets.get(name).await?;
        ensure!(secret.immutable.is_none(), "it is immutable again");
        ensure!(fixture.state().await?.active == before.active, "another CA");
        Ok(())
    })
    .await
}
