//! The injector goes away while it is needed.

use anyhow::Result;
use serde_json::Value;

use crate::stage::{Stage, manifest};

pub(crate) fn no_pod_comes_up_without_its_sidecar(stage: &Stage) -> Result<()> {
    let cluster = stage.cluster_with_injector()?;
    let system = cluster.existing_namespace("istio-system");
    let shop = cluster.namespace("replacement", &["istio-injection=enabled"])?;
    let killed = system.pods("app=sidecar-injector")?;
    let uid = |pod: &Value| pod["metadata"]["uid"].clone();

    shop.apply(&manifest("examples/client.yaml")?)?;
    system.kubectl(&[
        "delete",
        "pods",
        "--selector=app=sidecar-injector",
        "--grace-period=0",
        "--force",
    ])?;
    shop.kubectl(&["scale", "deployment/client", "--replicas=4"])?;
    shop.wait_until_available("client")?;
    system.wait_until_available("sidecar-injector")?;

    let replaced = system.pods("app=sidecar-injector")?;
    assert!(replaced.iter().all(|pod| !killed.iter().any(|old| uid(old) == uid(pod))));
    let pods = shop.pods("app=client")?;
    assert_eq!(pods.len(), 4);
    for pod in &pods {
        assert_eq!(pod["spec"]["initContainers"][1]["name"], "istio-proxy", "{pod:#}");
    }
    shop.delete()
}
