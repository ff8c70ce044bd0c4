//! The Helm chart as a release.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use e2e::helm::{Helm, chart};
use e2e::wait;
use serde_json::{Value, json};

use crate::apply::versions;
use crate::fixture::Fixture;
use crate::injector::Injector;
use crate::pods;

pub(crate) fn release_is_installed_upgraded_and_uninstalled(fixture: &Fixture) -> Result<()> {
    let helm = Helm::with_kubeconfig(&fixture.programs, fixture.servers.admin_kubeconfig())?;
    let run = |verb: &[&str], values: &Value| {
        helm.must(&[verb, &[&chart(), "--values=-"]].concat(), &values.to_string())
    };
    let manifest = |release: &str| helm.must(&["get", "manifest", release], "");
    let before = fixture.objects()?;
    let values = json!({
        "global": {"hub": "registry.example.com/mesh", "tag": "1.2.3"},
        "prometheus": {"enabled": true, "proxies": true},
        "grafana": {"enabled": true},
        "injector": {"trustProbe": true, "reports": true, "highAvailability": true},
    });
    let said = run(&["install", "mesh", "--create-namespace"], &values)?;
    ensure!(said.contains("kubectl label namespace NAME istio-injection=enabled"), "{said}");
    ensure!(!said.contains("set global.hub"), "it is set: {said}");
    let mut injector = Injector::of_manifests(fixture, &manifest("mesh")?)?;
    let published = fixture.until_published(CONFIGURATION)?;
    let client = fixture.admin.clone();
    pods::namespace(fixture, "istio-pods", "istio-injection=enabled")?;
    let tag = fixture.runtime.block_on(pods::until_injected(&client, "istio-pods"))?;
    ensure!(tag == "1.2.3", "the image has the tag {tag}");

    let mut changed = values;
    changed["global"]["tag"] = "1.2.4".into();
    changed["prometheus"]["monitor"] = "PodMonitor".into();
    run(&["upgrade", "mesh"], &changed)?;
    ensure!(fixture.bundles(CONFIGURATION)? == published, "an upgrade has changed caBundle");
    wait::until("the upgrade reaches pods", || {
        let tag = fixture.runtime.block_on(pods::until_injected(&client, "istio-pods"))?;
        ensure!(tag == "1.2.4", "the image has the tag {tag}");
        anyhow::Ok(())
    })?;
    let upgraded = manifest("mesh")?;
    let unchanged = versions(fixture, &upgraded)?;
    run(&["upgrade", "mesh"], &changed)?;
    ensure!(versions(fixture, &upgraded)? == unchanged, "a second upgrade wrote");

    // A revision shares no object, or Helm would refuse it.
    run(&["install", "canary"], &json!({"revision": "canary"}))?;
    helm.must(&["uninstall", "canary"], "")?;
    helm.must(&["uninstall", "mesh"], "")?;
    injector.process.stop()?;
    let mut left: BTreeSet<String> = fixture.objects()?.difference(&before).cloned().collect();
    // The API server has one for each version of a definition.
    left.retain(|object| !object.starts_with("APIService "));
    ensure!(left == LEFT.map(str::to_owned).into(), "{left:?} is left");
    // The commands in docs/helm.md.
    fixture.kubectl().must(["delete", "namespace", "istio-system", "--wait=false"])?;
    let definition = "peerauthentications.security.istio.io";
    fixture.kubectl().must(["delete", "customresourcedefinition", definition]).map(drop)
}

const CONFIGURATION: &str = "istio-sidecar-injector";
/// The test's own namespace, and what the page says.
const LEFT: [&str; 4] = [
    "CustomResourceDefinition /peerauthentications.security.istio.io",
    "Namespace /istio-pods",
    "Namespace /istio-system",
    "Secret istio-system/sidecar-injector-ca",
];
