//! Repair and ownership of `caBundle`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use webhook_certs::status::Status;

use crate::fixture::{Fixture, OTHERS_BUNDLE, OURS};

pub(crate) async fn only_bundles_of_our_entries_are_written_and_owned(
    fixture: Fixture<'_>,
) -> Result<()> {
    fixture.configure(443).await?;
    let before = fixture.configuration().await?;
    let _replica = fixture.replica().await?;
    fixture.published().await?;
    let after = fixture.configuration().await?;

    let bundles = fixture.bundles().await?;
    let theirs = bundles["service.theirs.outrigger.io"].clone();
    let expected: ByteString = serde_json::from_value(json!(OTHERS_BUNDLE))?;
    ensure!(theirs == Some(expected.0), "another Service's entry was changed");
    ensure!(bundles["url.theirs.outrigger.io"].is_none(), "an entry by URL was changed");

    let owned = after
        .metadata
        .managed_fields
        .iter()
        .flatten()
        .find(|fields| fields.manager.as_deref() == Some("sidecar-injector-webhook-certs"))
        .context("our field manager owns nothing")?;
    ensure!(owned.operation.as_deref() == Some("Apply"), "{owned:?}");
    let mut entries = serde_json::Map::new();
    for name in OURS {
        let key = format!("k:{}", json!({"name": name}));
        let fields = json!({".": {}, "f:clientConfig": {"f:caBundle": {}}, "f:name": {}});
        entries.insert(key, fields);
    }
    let fields = owned.fields_v1.as_ref().map(|fields| &fields.0);
    let expected = json!({"f:webhooks": entries});
    ensure!(fields == Some(&expected), "{fields:?}\n{expected}");
    ensure!(without_ours(before)? == without_ours(after)?, "another field was changed");
    Ok(())
}

pub(crate) async fn wiped_or_overwritten_bundle_is_repaired_by_one_write(
    fixture: Fixture<'_>,
) -> Result<()> {
    fixture.configure(443).await?;
    let (_one, _two) = (fixture.replica().await?, fixture.replica().await?);
    fixture.published().await?;
    let configurations = fixture.configurations();
    let name = &fixture.options.webhook_configurations[0];

    let remove = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let remove = Patch::<()>::Json(serde_json::from_value(remove)?);
    let overwrite = Patch::Apply(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "webhooks": [{"name": OURS[1], "clientConfig": {"caBundle": OTHERS_BUNDLE}}],
    }));
    let force = PatchParams::apply("other").force();
    for round in 0..3 {
        let generation = fixture.configuration().await?.metadata.generation;
        match round {
            0 => drop(configurations.patch(name, &PatchParams::default(), &remove).await?),
            1 => drop(configurations.patch(name, &force, &overwrite).await?),
            _ => {
                let mut whole = fixture.configuration().await?;
                for webhook in whole.webhooks.iter_mut().flatten() {
                    webhook.client_config.ca_bundle = None;
                }
                configurations.replace(name, &PostParams::default(), &whole).await?;
            }
        }
        fixture.published().await?;
        let writes = fixture.configuration().await?.metadata.generation.zip(generation);
        let writes = writes.map(|(after, before)| after - before);
        ensure!(writes == Some(2), "round {round}: {writes:?} writes, ours and theirs");
    }
    Ok(())
}

pub(crate) async fn contended_bundle_is_written_within_the_budget(
    mut fixture: Fixture<'_>,
) -> Result<()> {
    fixture.options.parameters.write_burst = 3;
    fixture.options.parameters.write_interval = SignedDuration::from_hours(1);
    fixture.configure(443).await?;
    let mut replica = fixture.replica().await?;
    let name = &fixture.options.webhook_configurations[0];
    let remove = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let remove = Patch::<()>::Json(serde_json::from_value(remove)?);
    for _ in 0..3 {
        fixture.published().await?;
        let wipe = PatchParams::default();
        fixture.configurations().patch(name, &wipe, &remove).await?;
    }
    let status = replica
        .until("it gives up for now", |status| {
            let error = status.last_error.as_deref().unwrap_or_default();
            error.contains("changes too often")
        })
        .await?;
    ensure!(status.bundle_writes() == 3, "{status:?}");
    ensure!(!status.trusted, "{status:?}");
    Ok(())
}

pub(crate) async fn entry_that_its_deployer_removes_is_removed_completely(
    fixture: Fixture<'_>,
) -> Result<()> {
    fixture.configure(443).await?;
    let mut replica = fixture.replica().await?;
    fixture.published().await?;
    let mut fewer = fixture.configuration().await?;
    fewer.metadata.managed_fields = None;
    fewer.metadata.resource_version = None;
    let webhooks = fewer.webhooks.get_or_insert_default();
    webhooks.retain(|webhook| webhook.name != OURS[1]);
    for webhook in webhooks.iter_mut() {
        webhook.client_config.ca_bundle = None;
    }
    let mut fewer = serde_json::to_value(fewer)?;
    fewer["apiVersion"] = json!("admissionregistration.k8s.io/v1");
    fewer["kind"] = json!("MutatingWebhookConfiguration");
    let name = &fixture.options.webhook_configurations[0];
    let how = PatchParams::apply("installer");
    // Only its caBundle, which we own, would be left.
    let refused = fixture.configurations().patch(name, &how, &Patch::Apply(&fewer)).await;
    let refused = refused.err().context("half an entry is left")?.to_string();
    ensure!(refused.contains("sideEffects: Required value"), "{refused}");

    let place = fixture.configuration().await?.webhooks.unwrap_or_default();
    let place = place.iter().position(|webhook| webhook.name == OURS[1]).context("it is gone")?;
    let remove = json!([{"op": "remove", "path": format!("/webhooks/{place}")}]);
    let remove = Patch::<()>::Json(serde_json::from_value(remove)?);
    fixture.configurations().patch(name, &PatchParams::default(), &remove).await?;
    fixture.configurations().patch(name, &how, &Patch::Apply(&fewer)).await?;
    let one_less =
        |status: &Status| status.entries == 1 && status.trusted && status.last_error.is_none();
    replica.until("it keeps up what is left", one_less).await?;
    let bundles = fixture.bundles().await?;
    ensure!(!bundles.contains_key(OURS[1]), "the entry came back");
    ensure!(bundles[OURS[0]].is_some(), "the other one has lost its bundle");
    Ok(())
}

pub(crate) async fn replicas_share_one_write_budget_against_an_adversary(
    mut fixture: Fixture<'_>,
) -> Result<()> {
    fixture.options.parameters.write_interval = SignedDuration::from_secs(2);
    fixture.options.parameters.tick = Duration::from_millis(500);
    fixture.configure(443).await?;
    let replicas = [fixture.replica().await?, fixture.replica().await?, fixture.replica().await?];
    fixture.published().await?;
    let written = || replicas.iter().map(|r| r.status.borrow().bundle_writes()).sum::<u64>();
    let name = &fixture.options.webhook_configurations[0];
    let (begin, before) = (Instant::now(), written());
    let mut round = 0;
    while begin.elapsed() < Duration::from_secs(8) {
        round += 1;
        let bundle = ByteString(format!("garbage {}", round % 3).into_bytes());
        let webhooks = OURS.map(|name| json!({"name": name, "clientConfig": {"caBundle": bundle}}));
        let overwrite = Patch::Apply(json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "webhooks": webhooks,
        }));
        let force = PatchParams::apply("other").force();
        fixture.configurations().patch(name, &force, &overwrite).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ours = written() - before;
    let parameters = &fixture.options.parameters;
    let intervals = begin.elapsed().as_secs() / parameters.write_interval.unsigned_abs().as_secs();
    // Replicas see each other's writes by the second and by their own reads, so on a busy machine
    // each may miss some.
    let apart = (u64::from(parameters.write_burst) + intervals) * replicas.len() as u64;
    ensure!(ours > 0, "it was never repaired");
    ensure!(ours * 3 <= apart * 2, "{ours} writes against {round}; apart it would be {apart}");
    Ok(())
}

/// Configuration without the fields that our writes change.
fn without_ours(mut configuration: MutatingWebhookConfiguration) -> Result<Value> {
    let ours = BTreeSet::from(OURS);
    for webhook in configuration.webhooks.iter_mut().flatten() {
        if ours.contains(webhook.name.as_str()) {
            webhook.client_config.ca_bundle = None;
        }
    }
    configuration.metadata.managed_fields = None;
    configuration.metadata.resource_version = None;
    configuration.metadata.generation = None;
    Ok(serde_json::to_value(configuration)?)
}
