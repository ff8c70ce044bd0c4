//! `kubectl apply -f install.yaml`.

use anyhow::Result;

use crate::fixture::Fixture;

pub(crate) fn injector_becomes_ready_and_trusted(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let system = cluster.existing_namespace("istio-system");
    let replicas = system.pods("app.kubernetes.io/part-of=outrigger")?;
    assert_eq!(replicas.len(), 2, "replicas of the injector");

    // With failurePolicy Fail, an untrusted webhook admits no pod.
    let asked = cluster.namespace("asked", &["istio-injection=enabled"])?;
    let reviewed = asked.kubectl(&[
        "run",
        "probe",
        "--image=busybox:1.37",
        "--dry-run=server",
        "--output=jsonpath={.spec.initContainers[*].name}",
    ])?;
    assert_eq!(reviewed, "istio-init istio-proxy");
    asked.delete()
}
