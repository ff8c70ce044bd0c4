//! Jobs beside a sidecar.

use anyhow::Result;
use e2e::namespace::{Namespace, name_of};
use e2e::proxy::connections;
use e2e::wait;
use serde_json::{Value, json};

use crate::app_pod::{app, pod, proxy_of, status_of};
use crate::fixture::Fixture;

pub(crate) fn job_with_a_native_sidecar_completes(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let batch = cluster.namespace("job", &["istio-injection=enabled"])?;
    let name = &start_job(&batch, &json!({}), WORK)?;
    let running = batch.get(&format!("pod/{name}"))?;
    assert_eq!(proxy_of(&running)?["restartPolicy"], "Always");
    connections(&running)?;

    batch.exec(name, "work", &["/bin/busybox", "touch", "/done"])?;
    batch.wait_for("condition=Complete", "job/work")?;
    batch.wait_for("jsonpath={.status.phase}=Succeeded", &format!("pod/{name}"))?;

    let ended = batch.get(&format!("pod/{name}"))?;
    assert_eq!(status_of(&ended, "istio-proxy")["state"]["terminated"]["exitCode"], 0);
    let log = batch.logs(name, "istio-proxy")?;
    let (drain, end) = (log.find("draining Envoy"), log.find("Envoy exited"));
    assert!(drain.is_some() && drain < end, "{log}");
    batch.delete()
}

pub(crate) fn job_with_a_classic_sidecar_ends_by_quitquitquit(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let batch = cluster.namespace("classic-job", &["istio-injection=enabled"])?;
    let quit = "busybox wget -q -O - --post-data= http://127.0.0.1:15020/quitquitquit";
    let classic = json!({ "sidecar.istio.io/nativeSidecar": "false" });
    let name = &start_job(&batch, &classic, &format!("{WORK}; {quit}"))?;
    let running = batch.get(&format!("pod/{name}"))?;
    assert!(proxy_of(&running)?["restartPolicy"].is_null(), "{running:#}");

    batch.exec(name, "work", &["/bin/busybox", "touch", "/done"])?;
    batch.wait_for("condition=Complete", "job/work")?;
    let ended = batch.get(&format!("pod/{name}"))?;
    assert_eq!(status_of(&ended, "istio-proxy")["state"]["terminated"]["exitCode"], 0);
    let log = batch.logs(name, "istio-proxy")?;
    assert!(!log.contains("draining Envoy"), "{log}");
    batch.delete()
}

/// Starts a Job, and returns the name of its pod, which is Ready.
fn start_job(batch: &Namespace<'_>, annotations: &Value, work: &str) -> Result<String> {
    let mut worker = app("work", &[work]);
    worker["command"] = json!(["/bin/busybox", "sh", "-c"]);
    let mut template =
        pod("work", annotations, &json!({ "restartPolicy": "Never", "containers": [worker] }));
    // A Job names its pods.
    template["metadata"]["name"].take();
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": "work" },
        "spec": {
            "backoffLimit": 0,
            "template": { "metadata": template["metadata"], "spec": template["spec"] },
        },
    });
    batch.apply(&job.to_string())?;
    let running = wait::until("the Job has its pod", || batch.pod("app=work"))?;
    let name = name_of(&running);
    batch.wait_for("condition=Ready", &format!("pod/{name}"))?;
    Ok(name.to_owned())
}

/// Ends when the file exists.
const WORK: &str = "until [ -e /done ]; do busybox sleep 0.2; done";
