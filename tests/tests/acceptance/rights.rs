//! A14: the permissions of the manifests, each one used, and the behaviour without each one.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::{calls, wait};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use webhook_certs::bundle::Bundle;

use crate::access::until_allowed;
use crate::fixture::{Fixture, INSTALL, NAMESPACE, SECRET};
use crate::load::Tally;

pub(crate) async fn every_permission_is_used_and_none_is_missing(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    fixture.install(2).await?;
    fixture.secrets().delete(SECRET, &DeleteParams::default()).await?;
    wait::until_async("the Secret is back", async || fixture.state().await).await?;
    fixture.ask_for_rotation().await?;
    fixture.until_phase("prepared").await?;
    fixture.until_published().await?;
    let granted = granted(fixture).await?;
    wait::until_async("every right is used", async || {
        let used = calls::used(&fixture.calls()?);
        // Events are written only when something is wrong.
        let unused: Vec<_> =
            granted.difference(&used).filter(|(_, resource)| resource != "events").collect();
        ensure!(unused.is_empty(), "granted and not used: {unused:?}");
        Ok(())
    })
    .await?;
    let calls = fixture.calls()?;
    fixture
        .tell(&Tally::default(), &format!("{} calls by {} rights", calls.len(), granted.len()))?;
    let denied = calls::denied(&calls);
    ensure!(denied.is_empty(), "denied: {denied:?}");
    Ok(())
}

pub(crate) async fn missing_permission_affects_nothing_else(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    for (resource, verb, without) in RIGHTS {
        let mut fixture =
            Fixture::set(fixture.shared, "missing_permission_affects_nothing_else").await?;
        let played = without_one(&mut fixture, (resource, verb), without).await;
        // The next round starts with all permissions.
        if played.is_err() {
            fixture.apply(&fixture.shared.base)?;
        }
        until_allowed(fixture.shared, (resource, verb), true).await?;
        played
            .with_context(|| format!("without {verb} of {resource}"))
            .map_err(|error| fixture.explain(&error))?;
        fixture.tell(&Tally::default(), &format!("without {verb} of {resource}: {without:?}"))?;
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
    fixture: &mut Fixture<'_>,
    (resource, verb): (&str, &str),
    without: Without,
) -> Result<()> {
    fixture.flag("denied-interval", "1s");
    take(fixture, resource, verb).await?;
    fixture.configure().await?;
    fixture.start(1)?;
    match without {
        Without::Everything => {
            fixture.until_ready()?;
            fixture.until_injected().await?;
            fixture.ask_for_rotation().await?;
            fixture.until_phase("prepared").await?;
        }
        Without::Admission => {
            fixture.until_ready()?;
            fixture.until_injected().await?;
            fixture.ask_for_rotation().await?;
            fixture.replicas[0].until_metric(FAILING, |failing| failing == 1)?;
            ensure!(fixture.state().await?.phase.word() == "steady", "it rotates all the same");
        }
        Without::Serving => {
            fixture.until_ready()?;
            fixture.replicas[0].until_metric(FAILING, |failing| failing == 1)?;
            ensure!(fixture.bundles().await?.iter().all(Bundle::is_empty), "published");
        }
        Without::Nothing => {
            let replica = &fixture.replicas[0];
            wait::until("it tells what it may not do", || {
                let said = replica.process.said()?;
                ensure!(said.contains("forbidden") && said.contains(resource), "{said}");
                Ok(())
            })?;
            ensure!(replica.ready().is_err(), "it is ready");
        }
    }
    ensure!(fixture.replicas[0].process.runs(), "it has ended");
    fixture.apply(&fixture.shared.base)?;
    fixture.until_ready()?;
    fixture.until_injected().await?;
    fixture.ask_for_rotation().await?;
    fixture.until_phase("prepared").await?;
    ensure!(fixture.replicas[0].process.runs(), "it has ended");
    Ok(())
}

/// Removes a verb from the rules for a resource.
async fn take(fixture: &Fixture<'_>, resource: &str, verb: &str) -> Result<()> {
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
    let roles = Api::<Role>::namespaced(fixture.admin(), NAMESPACE);
    let mut role = roles.get(INSTALL).await?;
    strip(&mut role.rules);
    roles.replace(INSTALL, &how, &role).await?;
    let roles = Api::<ClusterRole>::all(fixture.admin());
    let mut role = roles.get(INSTALL).await?;
    strip(&mut role.rules);
    roles.replace(INSTALL, &how, &role).await?;
    until_allowed(fixture.shared, (resource, verb), false).await
}

async fn granted(fixture: &Fixture<'_>) -> Result<BTreeSet<(String, String)>> {
    let role = Api::<Role>::namespaced(fixture.admin(), NAMESPACE).get(INSTALL).await?;
    let cluster = Api::<ClusterRole>::all(fixture.admin()).get(INSTALL).await?;
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
