//! A Job beside a native sidecar.

use std::time::Duration;

use anyhow::Result;
use e2e::namespace::name_of;
use e2e::proxy::connections;
use e2e::wait;
use serde_json::json;

use crate::app_pod::{app, pod, proxy_of, status_of};
use crate::fixture::Fixture;

pub(crate) fn job_with_a_native_sidecar_completes(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let batch = cluster.namespace("job", &["istio-injection=enabled"])?;
    // The work ends when the file exists.
    let work = "until [ -e /done ]; do busybox sleep 0.2; done";
    let mut worker = app("work", &[work]);
    worker["command"] = json!(["/bin/busybox", "sh", "-c"]);
    let template =
        pod("work", &json!({}), &json!({ "restartPolicy": "Never", "containers": [worker] }));
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": "work" },
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": { "labels": template["metadata"]["labels"] },
                "spec": template["spec"],
            },
        },
    });
    batch.apply(&job.to_string())?;
    let running = wait::until("the Job has its pod", PATIENCE, || batch.pod("app=work"))?;
    let name = name_of(&running);
    batch.wait_for("condition=Ready", &format!("pod/{name}"))?;
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

const PATIENCE: Duration = Duration::from_secs(120);
