//! A first installation, on a cluster with namespaces already labelled for injection.

use anyhow::{Context, Result, ensure};
use e2e::manifests::Composition;
use e2e::wait;

use crate::injector::Injector;
use crate::pods::{self, BARE, Stream};
use crate::world::{PATIENCE, World};

/// The installation in docs/install.md, with both kinds of apply, while pods are created all the
/// time.
pub(crate) fn a_first_installation_refuses_no_pod_of_labelled_namespaces(
    world: &World,
) -> Result<()> {
    for apply in [&["apply", "--filename", "-"][..], &["apply", "--server-side", "--filename", "-"]]
    {
        world.clear()?;
        installed(world, apply).with_context(|| apply.join(" "))?;
    }
    world.clear()?;
    without_the_first_step_pods_are_refused(world)
}

fn installed(world: &World, apply: &[&str]) -> Result<()> {
    let dormant = world.render(Composition::of(&["dormant"]))?;
    let called = world.render(Composition::of(&[]))?;
    let client = pods::client(world)?;
    pods::namespace(world, "istio-labelled", "istio-injection=enabled")?;
    let stream = Stream::of_any(world, &client, &["istio-labelled"]);
    stream.until_only(BARE, ENOUGH)?;
    world.kubectl().must_with_input(apply, &dormant)?;
    stream.until_only(BARE, ENOUGH)?;
    let _injector = Injector::of_manifests(world, &dormant)?;
    let trusted = "--for=jsonpath={.webhooks[0].clientConfig.caBundle}";
    world.kubectl().must(["wait", CONFIGURATION, trusted, "--timeout=60s"])?;
    stream.until_only(BARE, ENOUGH)?;
    world.kubectl().must_with_input(apply, &called)?;
    stream.until_only("1.28.0", ENOUGH)?;
    let tally = stream.stop(world)?;
    let known = tally.count(BARE) + tally.count("1.28.0");
    ensure!(tally.all() == known, "{:?}", tally.by_tag);
    Ok(())
}

/// Checks the gap that the first step avoids, and that the same step admits pods again.
fn without_the_first_step_pods_are_refused(world: &World) -> Result<()> {
    let apply = ["apply", "--filename", "-"];
    let client = pods::client(world)?;
    pods::namespace(world, "istio-labelled", "istio-injection=enabled")?;
    world.kubectl().must_with_input(apply, &world.render(Composition::of(&[]))?)?;
    wait::until("pods are refused", PATIENCE, || {
        let refused = world.runtime.block_on(pods::create(&client, "istio-labelled")).err();
        let refused = refused.context("not yet")?;
        let said = format!("{refused:#}");
        ensure!(said.contains("failed calling webhook"), "{said}");
        anyhow::Ok(())
    })?;
    world.kubectl().must_with_input(apply, &world.render(Composition::of(&["dormant"]))?)?;
    wait::until("pods are let in", PATIENCE, || {
        world.runtime.block_on(pods::create(&client, "istio-labelled")).map(drop)
    })
}

const CONFIGURATION: &str = "mutatingwebhookconfiguration/istio-sidecar-injector";
/// Number of pods after each step.
const ENOUGH: u64 = 100;
