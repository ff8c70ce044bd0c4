//! An injector with certificates of a cluster signer, as a revision beside the first.

use anyhow::{Context, Result, ensure};
use e2e::manifests::Composition;
use e2e::programs::Programs;
use e2e::signer::Signer;
use e2e::wait;
use serde_json::json;

use crate::fixture::Fixture;

pub(crate) fn cluster_signer_signs_only_for_injector_pods(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let system = cluster.existing_namespace("istio-system");
    let signer = Signer::create("example.com/serving")?;
    let rendered = SIGNED.render(&Programs::find()?)?;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "sidecar-injector-signer-ca", "namespace": "istio-system"},
        "data": {"ca.crt": signer.authority()},
    });
    system.apply(&map.to_string())?;
    cluster.apply(&rendered)?;
    wait::until("each replica has its certificate", || {
        signer.sign_approved(cluster.kubectl())?;
        let deployment = system.get("deployment/sidecar-injector-signed")?;
        let ready = deployment["status"]["readyReplicas"].as_u64().unwrap_or_default();
        ensure!(ready == 2, "{ready} are ready");
        anyhow::Ok(())
    })?;
    cluster.wait_until_published("istio-sidecar-injector-signed", 2)?;

    let revised = cluster.namespace("signed", &["istio.io/rev=signed"])?;
    let run = ["run", "probe", "--image=busybox:1.37", "--dry-run=server"];
    let names = "--output=jsonpath={.spec.initContainers[*].name}";
    // Calls reach a ready replica once kube-proxy has programmed its Service.
    wait::until("a pod of the revision is reviewed", || {
        let reviewed = revised.kubectl(&[&run[..], &[names]].concat())?;
        ensure!(reviewed == "istio-init istio-proxy", "{reviewed}");
        anyhow::Ok(())
    })?;
    revised.delete()?;

    // Only the other revision has a Secret.
    let secrets = system.kubectl(&["get", "secrets", "--output=name"])?;
    assert_eq!(secrets.trim(), "secret/sidecar-injector-ca");
    for pod in system.pods("istio.io/rev=signed")? {
        let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
        assert_eq!(restarts.as_u64().context("no status")?, 0, "{pod:#}");
    }
    let delete = ["delete", "--wait=false", "--filename", "-"];
    cluster.kubectl().must_with_input(delete, &rendered)?;
    cluster.kubectl().must_with_input(delete, &map.to_string())?;
    Ok(())
}

const SIGNED: Composition = Composition {
    components: &["revision", "csr", "csr-approval"],
    revision: Some("signed"),
    tags: &[],
};
