//! Revisions and tags from the point of view of pods.

use anyhow::{Result, ensure};
use e2e::manifests::Composition;

use crate::fixture::Fixture;
use crate::injector::Injector;
use crate::pods;

/// Two revisions, each with a CA of its own, and a tag that points at one of them.
pub(crate) fn tag_selects_its_revision(fixture: &Fixture) -> Result<()> {
    let base = fixture.render(Composition::new(&[]))?;
    let canary =
        Composition { components: &["revision"], revision: Some("canary"), tags: &["prod"] };
    // Their settings distinguish them.
    let canary = fixture.render(canary)?.replace("tag: 1.28.0", "tag: 1.29.0-canary");
    for rendered in [&base, &canary] {
        fixture.apply(rendered)?;
    }
    let _default = Injector::of_manifests(fixture, &base)?;
    let _canary = Injector::of_manifests(fixture, &canary)?;
    let configurations =
        ["istio-sidecar-injector", "istio-sidecar-injector-canary", "istio-revision-tag-prod"];
    let mut bundles = Vec::new();
    for configuration in configurations {
        bundles.push(fixture.until_published(configuration)?[0].clone());
    }
    ensure!(bundles[0] != bundles[1], "two revisions share a CA");
    ensure!(bundles[1] == bundles[2], "a tag has another CA than its revision");
    for secret in ["sidecar-injector-ca", "sidecar-injector-ca-canary"] {
        fixture.get("secret", secret)?;
    }
    let client = fixture.admin.clone();
    for (label, tag) in [
        ("istio-injection=enabled", "1.28.0"),
        ("istio.io/rev=default", "1.28.0"),
        ("istio.io/rev=canary", "1.29.0-canary"),
        ("istio.io/rev=prod", "1.29.0-canary"),
    ] {
        let name = format!("istio-{}", label.replace(['/', '=', '.'], "-"));
        pods::namespace(fixture, &name, label)?;
        let injected = fixture.runtime.block_on(pods::until_injected(&client, &name))?;
        ensure!(injected == tag, "{label}: injected with {injected}");
    }
    Ok(())
}
