//! A14: the permissions of the manifests, each one used, and the behaviour without each one.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{calls, wait};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use webhook_certs::bundle::Bundle;

use crate::access::until_allowed;
use crate::load::Tally;
use crate::stage::{INSTALL, NAMESPACE, SECRET, Stage, eventually};

pub(crate) async fn every_right_is_used_and_none_is_missing(stage: &mut Stage<'_>) -> Result<()> {
    stage.install(2).await?;
    stage.secrets().delete(SECRET, &DeleteParams::default()).await?;
    eventually("the Secret is back", async || stage.state().await).await?;
    stage.ask_for_rotation().await?;
    stage.until_phase("prepared").await?;
    stage.until_published().await?;
    let granted = granted(stage).await?;
    eventually("every right is used", async || {
        let used = calls::used(&stage.calls()?);
        // Events are written only when something is wrong.
        let unused: Vec<_> =
            granted.difference(&used).filter(|(_, resource)| resource != "events").collect();
        ensure!(unused.is_empty(), "granted and not used: {unused:?}");
        Ok(())
    })
    .await?;
    let calls = stage.calls()?;
    stage.tell(&Tally::default(), &format!("{} calls by {} rights", calls.len(), granted.len()))?;
    let denied = calls::denied(&calls);
    ensure!(denied.is_empty(), "denied: {denied:?}");
    Ok(())
}

pub(crate) async fn without_a_right_the_rest_goes_on(stage: &mut Stage<'_>) -> Result<()> {
    for (resource, verb, without) in RIGHTS {
        let mut stage = Stage::set(stage.world, "without_a_right_the_rest_goes_on").await?;
        let played = without_one(&mut stage, (resource, verb), without).await;
        // The next round starts with all permissions.
        if played.is_err() {
            stage.apply(&stage.world.base)?;
        }
        until_allowed(stage.world, (resource, verb), true).await?;
        played
            .with_context(|| format!("without {verb} of {resource}"))
            .map_err(|error| stage.explain(&error))?;
        stage.tell(&Tally::default(), &format!("without {verb} of {resource}: {without:?}"))?;
    }
    Ok(())
}

/// Remaining function without a permission.
#[derive(Clone, Copy, Debug)]
enum Without {
    /// Everything works; changes are seen at the next tick.
    Everything,
    /// Existing state continues; the CA is not rotated.
    Admission,
    /// Reviews are served; another client has to publish the CA.
    Serving,
    /// The replica waits, and reports the missing permission.
    Nothing,
}

async fn without_one(
    stage: &mut Stage<'_>,
    (resource, verb): (&str, &str),
    without: Without,
) -> Result<()> {
    stage.flag("denied-interval", "1s");
    take(stage, resource, verb).await?;
    stage.configure().await?;
    stage.start(1)?;
    match without {
        Without::Everything => {
            stage.until_ready()?;
            stage.until_injected().await?;
            stage.ask_for_rotation().await?;
            stage.until_phase("prepared").await?;
        }
        Without::Admission => {
            stage.until_ready()?;
            stage.until_injected().await?;
            stage.ask_for_rotation().await?;
            stage.replicas[0].until_metric(FAILING, |failing| failing == 1)?;
            ensure!(stage.state().await?.phase.word() == "steady", "it rotates all the same");
        }
        Without::Serving => {
            stage.until_ready()?;
            stage.replicas[0].until_metric(FAILING, |failing| failing == 1)?;
            ensure!(stage.bundles().await?.iter().all(Bundle::is_empty), "published");
        }
        Without::Nothing => {
            let replica = &stage.replicas[0];
            wait::until("it tells what it may not do", PATIENCE, || {
                let said = replica.process.said()?;
                ensure!(said.contains("forbidden") && said.contains(resource), "{said}");
                Ok(())
            })?;
            ensure!(replica.ready().is_err(), "it is ready");
        }
    }
    ensure!(stage.replicas[0].process.runs(), "it has ended");
    stage.apply(&stage.world.base)?;
    stage.until_ready()?;
    stage.until_injected().await?;
    stage.ask_for_rotation().await?;
    stage.until_phase("prepared").await?;
    ensure!(stage.replicas[0].process.runs(), "it has ended");
    Ok(())
}

/// Removes a verb from the rules for a resource.
async fn take(stage: &Stage<'_>, resource: &str, verb: &str) -> Result<()> {
    let strip = |rules: &mut Option<Vec<PolicyRule>>| {
        for rule in rules.iter_mut().flatten() {
            if rule.resources.iter().flatten().any(|other| other == resource) {
                rule.verbs.retain(|other| other != verb);
            }
        }
        // A rule without any verb is invalid.
        rules.get_or_insert_default().retain(|rule| !rule.verbs.is_empty());
    };
    let how = PostParams::default();
    let roles = Api::<Role>::namespaced(stage.admin(), NAMESPACE);
    let mut role = roles.get(INSTALL).await?;
    strip(&mut role.rules);
    roles.replace(INSTALL, &how, &role).await?;
    let roles = Api::<ClusterRole>::all(stage.admin());
    let mut role = roles.get(INSTALL).await?;
    strip(&mut role.rules);
    roles.replace(INSTALL, &how, &role).await?;
    until_allowed(stage.world, (resource, verb), false).await
}

async fn granted(stage: &Stage<'_>) -> Result<BTreeSet<(String, String)>> {
    let role = Api::<Role>::namespaced(stage.admin(), NAMESPACE).get(INSTALL).await?;
    let cluster = Api::<ClusterRole>::all(stage.admin()).get(INSTALL).await?;
    let mut granted = BTreeSet::new();
    for rule in role.rules.iter().flatten().chain(cluster.rules.iter().flatten()) {
        for resource in rule.resources.iter().flatten() {
            granted.extend(rule.verbs.iter().map(|verb| (verb.clone(), resource.clone())));
        }
    }
    Ok(granted)
}

const RIGHTS: [(&str, &str, Without); 13] = [
    ("secrets", "get", Without::Nothing),
    ("secrets", "create", Without::Nothing),
    ("secrets", "list", Without::Everything),
    ("secrets", "watch", Without::Everything),
    ("secrets", "update", Without::Admission),
    ("configmaps", "list", Without::Nothing),
    ("configmaps", "watch", Without::Everything),
    ("mutatingwebhookconfigurations", "get", Without::Serving),
    ("mutatingwebhookconfigurations", "list", Without::Everything),
    ("mutatingwebhookconfigurations", "watch", Without::Everything),
    ("mutatingwebhookconfigurations", "patch", Without::Serving),
    ("nodes", "list", Without::Everything),
    ("proxyconfigs", "list", Without::Everything),
];
const FAILING: &str = "sidecar_injector_certificate_upkeep_failing";
const PATIENCE: Duration = Duration::from_secs(120);
