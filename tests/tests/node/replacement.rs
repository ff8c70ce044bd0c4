//! Replacement of the injector while it is needed.

use anyhow::Result;
use e2e::namespace::Namespace;
use serde_json::Value;

use crate::fixture::{Fixture, manifest};

pub(crate) fn no_pod_starts_without_its_sidecar(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let system = cluster.existing_namespace("istio-system");
    let shop = cluster.namespace("replacement", &["istio-injection=enabled"])?;
    let killed = system.pods(INJECTOR)?;

    shop.apply(&manifest("examples/client.yaml")?)?;
    let all = format!("--selector={INJECTOR}");
    system.kubectl(&["delete", "pods", &all, "--grace-period=0", "--force"])?;
    shop.kubectl(&["scale", "deployment/client", "--replicas=3"])?;
    shop.wait_until_available("client")?;
    system.wait_until_available("sidecar-injector")?;
    let uid = |pod: &Value| pod["metadata"]["uid"].clone();
    let replaced = system.pods(INJECTOR)?;
    assert!(replaced.iter().all(|pod| !killed.iter().any(|old| uid(old) == uid(pod))));
    expect_sidecars(&shop, 3)?;

    system.kubectl(&["scale", "deployment/sidecar-injector", "--replicas=0"])?;
    system.kubectl(&["wait", "--for=delete", "pods", &all, "--timeout=120s"])?;
    shop.kubectl(&["scale", "deployment/client", "--replicas=5"])?;
    shop.wait_for("condition=ReplicaFailure", "deployment/client")?;
    expect_sidecars(&shop, 3)?;
    system.kubectl(&["scale", "deployment/sidecar-injector", "--replicas=2"])?;
    system.wait_until_available("sidecar-injector")?;
    shop.wait_until_available("client")?;
    expect_sidecars(&shop, 5)?;
    shop.delete()
}

fn expect_sidecars(shop: &Namespace<'_>, count: usize) -> Result<()> {
    let pods = shop.pods("app=client")?;
    assert_eq!(pods.len(), count);
    for pod in &pods {
        assert_eq!(pod["spec"]["initContainers"][1]["name"], "istio-proxy", "{pod:#}");
    }
    Ok(())
}

const INJECTOR: &str = "app.kubernetes.io/part-of=outrigger";
