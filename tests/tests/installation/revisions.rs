//! Revisions and tags from the point of view of pods.

use anyhow::{Result, ensure};
use e2e::manifests::Composition;

use crate::injector::Injector;
use crate::pods;
use crate::world::World;

/// Two revisions, each with a CA of its own, and a tag that points at one of them.
pub(crate) fn a_tag_leads_to_the_revision_it_points_at(world: &World) -> Result<()> {
    let base = world.render(Composition::of(&[]))?;
    let canary =
        Composition { components: &["revision"], revision: Some("canary"), tags: &["prod"] };
    // Their settings distinguish them.
    let canary = world.render(canary)?.replace("tag: 1.28.0", "tag: 1.29.0-canary");
    for rendered in [&base, &canary] {
        world.kubectl().must_with_input(["apply", "--filename", "-"], rendered)?;
    }
    let _default = Injector::of_manifests(world, &base)?;
    let _canary = Injector::of_manifests(world, &canary)?;
    let configurations =
        ["istio-sidecar-injector", "istio-sidecar-injector-canary", "istio-revision-tag-prod"];
    let mut bundles = Vec::new();
    for configuration in configurations {
        bundles.push(world.until_published(configuration)?[0].clone());
    }
    ensure!(bundles[0] != bundles[1], "two revisions share a CA");
    ensure!(bundles[1] == bundles[2], "a tag has another CA than its revision");
    for secret in ["sidecar-injector-ca", "sidecar-injector-ca-canary"] {
        world.get("secret", secret)?;
    }
    let client = pods::client(world)?;
    for (label, tag) in [
        ("istio-injection=enabled", "1.28.0"),
        ("istio.io/rev=default", "1.28.0"),
        ("istio.io/rev=canary", "1.29.0-canary"),
        ("istio.io/rev=prod", "1.29.0-canary"),
    ] {
        let name = format!("istio-{}", label.replace(['/', '=', '.'], "-"));
        pods::namespace(world, &name, label)?;
        let injected = world.runtime.block_on(pods::until_injected(&client, &name))?;
        ensure!(injected == tag, "{label}: injected with {injected}");
    }
    Ok(())
}
