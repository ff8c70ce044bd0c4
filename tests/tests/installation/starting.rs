//! A first installation, on a cluster with namespaces already labelled for injection.

use anyhow::{Context, Result, ensure};
use e2e::manifests::Composition;
use e2e::wait;

use crate::fixture::Fixture;
use crate::injector::Injector;
use crate::pods::{self, BARE, Stream};

/// The installation in docs/install.md, with both kinds of apply, while pods are created all the
/// time.
pub(crate) fn first_installation_rejects_no_pod(fixture: &Fixture) -> Result<()> {
    for apply in [&["apply", "--filename", "-"][..], &["apply", "--server-side", "--filename", "-"]]
    {
        fixture.clear()?;
        installed(fixture, apply).with_context(|| apply.join(" "))?;
    }
    fixture.clear()?;
    without_the_first_step_pods_are_refused(fixture)
}

fn installed(fixture: &Fixture, apply: &[&str]) -> Result<()> {
    let dormant = fixture.render(Composition::new(&["dormant"]))?;
    let called = fixture.render(Composition::new(&[]))?;
    let client = fixture.admin.clone();
    pods::namespace(fixture, "istio-labelled", "istio-injection=enabled")?;
    let stream = Stream::of_any(fixture, &client, &["istio-labelled"]);
    stream.until_only(BARE, ENOUGH)?;
    fixture.kubectl().must_with_input(apply, &dormant)?;
    stream.until_only(BARE, ENOUGH)?;
    let _injector = Injector::of_manifests(fixture, &dormant)?;
    let trusted = "--for=jsonpath={.webhooks[0].clientConfig.caBundle}";
    fixture.kubectl().must(["wait", CONFIGURATION, trusted, "--timeout=60s"])?;
    stream.until_only(BARE, ENOUGH)?;
    fixture.kubectl().must_with_input(apply, &called)?;
    stream.until_only("1.28.0", ENOUGH)?;
    let tally = stream.stop(fixture)?;
    let known = tally.count(BARE) + tally.count("1.28.0");
    ensure!(tally.all() == known, "{:?}", tally.by_tag);
    Ok(())
}

/// Checks the gap that the first step avoids, and that the same step admits pods again.
fn without_the_first_step_pods_are_refused(fixture: &Fixture) -> Result<()> {
    let apply = ["apply", "--filename", "-"];
    let client = fixture.admin.clone();
    pods::namespace(fixture, "istio-labelled", "istio-injection=enabled")?;
    fixture.kubectl().must_with_input(apply, &fixture.render(Composition::new(&[]))?)?;
    wait::until("the API server rejects pods", || {
        let refused = fixture.runtime.block_on(pods::create(&client, "istio-labelled")).err();
        let refused = refused.context("not yet")?;
        let said = format!("{refused:#}");
        ensure!(said.contains("failed calling webhook"), "{said}");
        anyhow::Ok(())
    })?;
    fixture.kubectl().must_with_input(apply, &fixture.render(Composition::new(&["dormant"]))?)?;
    wait::until("pods are let in", || {
        fixture.runtime.block_on(pods::create(&client, "istio-labelled")).map(drop)
    })
}

const CONFIGURATION: &str = "mutatingwebhookconfiguration/istio-sidecar-injector";
/// Number of pods after each step.
const ENOUGH: u64 = 50;
