//! Repair of a `caBundle` that other clients write too.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::load::Tally;
use crate::stage::{NAME, Stage, eventually};

/// A8
pub(crate) async fn a_bundle_that_is_wiped_is_repaired_by_one_write(
    stage: &mut Stage<'_>,
) -> Result<()> {
    stage.install(2).await?;
    stage.until_published().await?;
    let mut slowest = Duration::ZERO;
    for how in ["replace", "apply", "JSON patch"] {
        let before = stage.writes(CONFIGURATIONS)?;
        let generation = stage.configuration().await?.metadata.generation;
        let begin = Instant::now();
        wipe(stage, how).await?;
        stage.until_published().await?;
        slowest = slowest.max(begin.elapsed());
        stage.until_injected().await?;
        let writes = || anyhow::Ok(stage.writes(CONFIGURATIONS)? - before);
        // A write may be visible before it is in the audit log.
        eventually("the write is in the audit log", async || {
            ensure!(writes()? > 0, "{how}: no write");
            Ok(())
        })
        .await?;
        // On a busy machine each replica may write the same; only one write changes anything.
        ensure!(writes()? <= stage.replicas.len(), "{how}: {} writes", writes()?);
        let after = stage.configuration().await?.metadata.generation;
        let changes = after.zip(generation).map(|(after, before)| after - before);
        ensure!(changes == Some(2), "{how}: {changes:?} changes, ours and the wipe");
    }
    stage.tell(&Tally::default(), &format!("repaired after {slowest:.1?} at most"))
}

/// A9
pub(crate) async fn somebody_who_keeps_overwriting_a_bundle_is_not_answered_for_ever(
    stage: &mut Stage<'_>,
) -> Result<()> {
    stage.install(2).await?;
    stage.until_published().await?;
    let before = stage.writes(CONFIGURATIONS)?;
    let begin = Instant::now();
    let mut theirs = 0;
    while begin.elapsed() < stage.pace().contention {
        wipe(stage, "apply").await?;
        theirs += 1;
        tokio::time::sleep(BETWEEN_REWRITES).await;
    }
    let ours = stage.writes(CONFIGURATIONS)? - before;
    // A replica that was suspended for a moment has not seen the other client's writes, and still
    // has its write budget.
    let each = BURST + begin.elapsed().as_secs() / INTERVAL + 1;
    let allowed = stage.replicas.len() as u64 * each;
    stage.tell(&Tally::default(), &format!("{ours} against {theirs} of somebody else"))?;
    ensure!(ours as u64 <= allowed, "{ours} writes, and {allowed} are allowed");
    ensure!(ours > 0, "it was never repaired");
    Ok(())
}

/// A10
pub(crate) async fn an_installation_leaves_the_entries_of_another_service_alone(
    stage: &mut Stage<'_>,
) -> Result<()> {
    stage.install(2).await?;
    let state = stage.until_published().await?;
    // Its permissions do not matter here, only its writes: it is the administrator.
    stage.flag("namespace", "pods");
    let kubeconfig = stage.world.servers.admin_kubeconfig();
    let other = stage.launch(&kubeconfig)?;
    let before = stage.configuration().await?.metadata.generation;
    other.until_metric("sidecar_injector_ca_generation", |generation| generation >= 1)?;
    ensure!(other.metric("sidecar_injector_webhook_entries")? == 0, "it took entries over");
    let load = stage.load();
    load.until_admitted(200).await?;
    let tally = load.stop().await?;
    let after = stage.configuration().await?.metadata.generation;
    ensure!(before == after, "the configuration was written to");
    ensure!(stage.state().await?.active == state.active, "another CA signs");
    stage.tell(&tally, "")?;
    tally.expect_no_failure()
}

/// A15, A16
pub(crate) async fn nothing_but_bundles_is_owned_and_no_apply_takes_them_away(
    stage: &mut Stage<'_>,
) -> Result<()> {
    stage.install(2).await?;
    let state = stage.until_published().await?;
    let configuration = stage.configuration().await?;
    let names = configuration.webhooks.iter().flatten().map(|webhook| webhook.name.clone());
    let fields = json!({".": {}, "f:clientConfig": {"f:caBundle": {}}, "f:name": {}});
    let entries: serde_json::Map<String, Value> =
        names.map(|name| (format!("k:{}", json!({"name": name})), fields.clone())).collect();
    let managers = configuration.metadata.managed_fields.unwrap_or_default();
    let ours = managers
        .iter()
        .find(|fields| fields.manager.as_deref() == Some("sidecar-injector-webhook-certs"))
        .context("our field manager owns nothing")?;
    let owned = ours.fields_v1.as_ref().map(|fields| &fields.0);
    ensure!(owned == Some(&json!({"f:webhooks": entries})), "{owned:?}");

    let kubectl = stage.world.servers.kubectl();
    for options in [&["--server-side"][..], &["--server-side", "--field-manager=flux"], &[]] {
        for command in ["apply", "diff"] {
            let mut args = vec![command, "--filename", "-"];
            args.extend(options);
            let said = kubectl.must_with_input(args, &stage.world.webhook)?;
            ensure!(command == "apply" || said.is_empty(), "{options:?}: {said}");
        }
        for bundle in stage.bundles().await? {
            ensure!(bundle.is_same_set(&state.bundle()), "{options:?}: {bundle:?}");
        }
    }
    stage.tell(&Tally::default(), "")
}

/// A17
pub(crate) async fn a_configuration_that_is_deleted_and_created_anew_is_never_half_an_object(
    stage: &mut Stage<'_>,
) -> Result<()> {
    stage.flag("write-burst", "100");
    stage.install(2).await?;
    let mut slowest = Duration::ZERO;
    let rounds = 5 * stage.pace().rounds;
    for _ in 0..rounds {
        // A wipe makes the replicas write at the moment of the deletion.
        wipe(stage, "JSON patch").await?;
        stage.configurations().delete(NAME, &DeleteParams::default()).await?;
        tokio::time::sleep(BETWEEN_REWRITES).await;
        let left = stage.configurations().get_opt(NAME).await?;
        ensure!(left.is_none(), "half an object came back");
        let begin = Instant::now();
        stage.configure().await?;
        stage.until_published().await?;
        slowest = slowest.max(begin.elapsed());
    }
    stage.until_injected().await?;
    stage.tell(&Tally::default(), &format!("{rounds} times, published after {slowest:.1?} at most"))
}

/// Removes the bundle of every entry, in one of several ways.
async fn wipe(stage: &Stage<'_>, how: &str) -> Result<()> {
    let configurations = stage.configurations();
    match how {
        "replace" => {
            eventually("nobody else writes", async || {
                let mut whole = stage.configuration().await?;
                for webhook in whole.webhooks.iter_mut().flatten() {
                    webhook.client_config.ca_bundle = None;
                }
                configurations.replace(NAME, &PostParams::default(), &whole).await?;
                Ok(())
            })
            .await
        }
        "apply" => stage.publish(b"garbage").await,
        _ => {
            let count = stage.configuration().await?.webhooks.unwrap_or_default().len();
            let remove = |index| {
                json!({"op": "replace", "value": "",
                                        "path": format!("/webhooks/{index}/clientConfig/caBundle")})
            };
            let patch: Vec<_> = (0..count).map(remove).collect();
            let patch = Patch::<()>::Json(serde_json::from_value(json!(patch))?);
            configurations.patch(NAME, &PatchParams::default(), &patch).await?;
            Ok(())
        }
    }
}

const CONFIGURATIONS: &str = "mutatingwebhookconfigurations";
const BETWEEN_REWRITES: Duration = Duration::from_millis(200);
/// The injector's default write budget.
const BURST: u64 = 5;
const INTERVAL: u64 = 30;
