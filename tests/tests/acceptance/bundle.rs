//! Repair of a `caBundle` that other clients write too.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::wait;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixture::{Fixture, NAME};
use crate::load::Tally;

/// A8
pub(crate) async fn wiped_bundle_is_repaired_by_one_write(fixture: &mut Fixture<'_>) -> Result<()> {
    fixture.install(2).await?;
    fixture.until_published().await?;
    let mut slowest = Duration::ZERO;
    for how in ["replace", "apply", "JSON patch"] {
        let before = fixture.writes(CONFIGURATIONS)?;
        let generation = fixture.configuration().await?.metadata.generation;
        let begin = Instant::now();
        wipe(fixture, how).await?;
        fixture.until_published().await?;
        slowest = slowest.max(begin.elapsed());
        fixture.until_injected().await?;
        let writes = || anyhow::Ok(fixture.writes(CONFIGURATIONS)? - before);
        // A write may be visible before it is in the audit log.
        wait::until_async("the write is in the audit log", async || {
            ensure!(writes()? > 0, "{how}: no write");
            Ok(())
        })
        .await?;
        // On a busy machine each replica may write the same; only one write changes anything.
        ensure!(writes()? <= fixture.replicas.len(), "{how}: {} writes", writes()?);
        let after = fixture.configuration().await?.metadata.generation;
        let changes = after.zip(generation).map(|(after, before)| after - before);
        ensure!(changes == Some(2), "{how}: {changes:?} changes, ours and the wipe");
    }
    fixture.tell(&Tally::default(), &format!("repaired after {slowest:.1?} at most"))
}

/// A9
pub(crate) async fn continuous_overwriting_does_not_cause_endless_writes(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    fixture.install(2).await?;
    fixture.until_published().await?;
    let before = fixture.writes(CONFIGURATIONS)?;
    let begin = Instant::now();
    let mut theirs = 0;
    while begin.elapsed() < fixture.pace().contention {
        wipe(fixture, "apply").await?;
        theirs += 1;
        tokio::time::sleep(BETWEEN_REWRITES).await;
    }
    let ours = fixture.writes(CONFIGURATIONS)? - before;
    // A replica that was suspended for a moment has not seen the other client's writes, and still
    // has its write budget.
    let each = BURST + begin.elapsed().as_secs() / INTERVAL + 1;
    let allowed = fixture.replicas.len() as u64 * each;
    fixture.tell(&Tally::default(), &format!("{ours} own writes against {theirs} foreign ones"))?;
    ensure!(ours as u64 <= allowed, "{ours} writes, and {allowed} are allowed");
    ensure!(ours > 0, "it was never repaired");
    Ok(())
}

/// A10
pub(crate) async fn entries_of_another_service_are_not_changed(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    fixture.install(2).await?;
    let state = fixture.until_published().await?;
    // Its permissions do not matter here, only its writes: it is the administrator.
    fixture.flag("namespace", "pods");
    let kubeconfig = fixture.shared.servers.admin_kubeconfig();
    let other = fixture.launch(&kubeconfig)?;
    let before = fixture.configuration().await?.metadata.generation;
    other.until_metric("sidecar_injector_ca_generation", |generation| generation >= 1)?;
    ensure!(other.metric("sidecar_injector_webhook_entries")? == 0, "it took entries over");
    let load = fixture.load();
    load.until_admitted(200).await?;
    let tally = load.stop().await?;
    let after = fixture.configuration().await?.metadata.generation;
    ensure!(before == after, "the configuration was written to");
    ensure!(fixture.state().await?.active == state.active, "another CA signs");
    fixture.tell(&tally, "")?;
    tally.expect_no_failure()
}

/// A15, A16
pub(crate) async fn only_bundles_are_owned_and_every_apply_keeps_them(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    fixture.install(2).await?;
    let state = fixture.until_published().await?;
    let configuration = fixture.configuration().await?;
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

    let kubectl = fixture.shared.servers.kubectl();
    for options in [&["--server-side"][..], &["--server-side", "--field-manager=flux"], &[]] {
        for command in ["apply", "diff"] {
            let mut args = vec![command, "--filename", "-"];
            args.extend(options);
            let said = kubectl.must_with_input(args, &fixture.shared.webhook)?;
            ensure!(command == "apply" || said.is_empty(), "{options:?}: {said}");
        }
        for bundle in fixture.bundles().await? {
            ensure!(bundle.is_same_set(&state.bundle()), "{options:?}: {bundle:?}");
        }
    }
    fixture.tell(&Tally::default(), "")
}

/// A17
pub(crate) async fn recreated_configuration_is_never_incomplete(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    fixture.flag("write-burst", "100");
    fixture.install(2).await?;
    let mut slowest = Duration::ZERO;
    let rounds = 5 * fixture.pace().rounds;
    for _ in 0..rounds {
        // A wipe makes the replicas write at the moment of the deletion.
        wipe(fixture, "JSON patch").await?;
        fixture.configurations().delete(NAME, &DeleteParams::default()).await?;
        tokio::time::sleep(BETWEEN_REWRITES).await;
        let left = fixture.configurations().get_opt(NAME).await?;
        ensure!(left.is_none(), "half an object came back");
        let begin = Instant::now();
        fixture.configure().await?;
        fixture.until_published().await?;
        slowest = slowest.max(begin.elapsed());
    }
    fixture.until_injected().await?;
    fixture
        .tell(&Tally::default(), &format!("{rounds} times, published after {slowest:.1?} at most"))
}

/// Removes the bundle of every entry, in one of several ways.
async fn wipe(fixture: &Fixture<'_>, how: &str) -> Result<()> {
    let configurations = fixture.configurations();
    match how {
        "replace" => {
            wait::until_async("no other client writes", async || {
                let mut whole = fixture.configuration().await?;
                for webhook in whole.webhooks.iter_mut().flatten() {
                    webhook.client_config.ca_bundle = None;
                }
                configurations.replace(NAME, &PostParams::default(), &whole).await?;
                anyhow::Ok(())
            })
            .await
        }
        "apply" => fixture.publish(b"garbage").await,
        _ => {
            let count = fixture.configuration().await?.webhooks.unwrap_or_default().len();
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
