//! Guard policies during the rotation of a CA, with pods created all the time.

use anyhow::{Result, bail, ensure};
use e2e::wait;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::fixture::{Fixture, NAME};

/// A18
pub(crate) async fn guard_policy_denies_a_stolen_token_but_not_the_injector(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    fixture.flag("write-interval", "1s");
    fixture.install(2).await?;
    let mut thieves = Vec::new();
    for index in 0..fixture.shared.servers.count() {
        thieves.push(fixture.account(index).await?);
    }
    for thief in &thieves {
        // A dry run passes admission like any request, and changes nothing before the policy is in
        // force.
        let how = PatchParams { dry_run: true, ..PatchParams::default() };
        wait::until_async("the policy is in force", async || {
            denied(thief, &thefts()[0], &how).await
        })
        .await?;
    }
    let first = fixture.until_published().await?;
    let load = fixture.load();
    let mut attempts = 0;
    fixture.ask_for_rotation().await?;
    for phase in ["prepared", "activated"] {
        fixture.until_phase(phase).await?;
        for thief in &thieves {
            for theft in &thefts() {
                denied(thief, theft, &PatchParams::default()).await?;
                attempts += 1;
            }
            let bundle = json!([{"op": "replace", "value": "Z2FyYmFnZQ==",
                                 "path": "/webhooks/0/clientConfig/caBundle"}]);
            let how = PatchParams { dry_run: true, ..PatchParams::default() };
            patch(thief, &bundle, &how).await?;
        }
        load.until_admitted(50).await?;
    }
    let last = fixture.until_published().await?;
    ensure!(!last.active.ca().is_same_signer(first.active.ca()), "the CA was not replaced");
    load.until_admitted(100).await?;
    let tally = load.stop().await?;
    let changed = fixture.configuration().await?;
    let failing = changed.webhooks.iter().flatten().filter_map(|one| one.failure_policy.as_ref());
    ensure!(failing.clone().all(|policy| policy == "Fail"), "a theft succeeded");
    fixture.tell(&tally, &format!("{attempts} thefts were denied"))?;
    tally.expect_no_failure()
}

/// Returns the attacks that the patch permission would allow.
fn thefts() -> [Value; 4] {
    let replace =
        |path: &str, value: Value| json!([{"op": "replace", "path": path, "value": value}]);
    [
        replace("/webhooks/0/failurePolicy", json!("Ignore")),
        replace("/webhooks/0/rules/0/resources/0", json!("secrets")),
        replace("/webhooks/0/clientConfig/service/name", json!("thief")),
        json!([{"op": "remove", "path": "/webhooks/0"}]),
    ]
}

/// Returns an error unless the policy denies the change.
async fn denied(thief: &Client, change: &Value, how: &PatchParams) -> Result<()> {
    match patch(thief, change, how).await {
        Err(error) if format!("{error:#}").contains("the injector may") => Ok(()),
        other => bail!("{change}: {other:?}"),
    }
}

async fn patch(client: &Client, change: &Value, how: &PatchParams) -> Result<()> {
    let configurations = Api::<MutatingWebhookConfiguration>::all(client.clone());
    let patch = Patch::<()>::Json(serde_json::from_value(change.clone())?);
    configurations.patch(NAME, how, &patch).await?;
    Ok(())
}
