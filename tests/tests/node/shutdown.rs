//! Order of the containers' ends when a pod is deleted.

use anyhow::{Context, Result, ensure};
use e2e::namespace::{Namespace, address_of};
use e2e::wait;
use serde_json::json;

use crate::app_pod::{app, pod, proxy_of};
use crate::fixture::Fixture;

pub(crate) fn last_request_after_sigterm_leaves_by_the_proxy(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let shop = cluster.namespace("shutdown", &["istio-injection=enabled"])?;
    let mut server = pod("server", &json!({}), &json!({}));
    server["metadata"]["labels"]["sidecar.istio.io/inject"] = json!("false");
    server["spec"]["containers"] = json!([app("app", &["--http=8080"])]);
    shop.apply(&server.to_string())?;
    shop.wait_for("condition=Ready", "pod/server")?;
    let server = address_of(&shop.get("pod/server")?)?;

    for name in [NATIVE, CLASSIC] {
        let last_request = format!(
            "trap 'echo SIGTERM' TERM; busybox mkdir /told; echo waits; \
             until [ -e /told/request ]; do busybox sleep 0.1; done; \
             busybox wget -q -O - http://{server}:8080/{name}; \
             until [ -e /told/end ]; do busybox sleep 0.1; done"
        );
        let mut application = app("app", &[&last_request]);
        application["command"] = json!(["/bin/busybox", "sh", "-c"]);
        // The classic proxy drains until the story ends. The native one needs no such setting.
        let annotations = if name == NATIVE {
            json!({ "sidecar.istio.io/nativeSidecar": "true" })
        } else {
            let config =
                "{terminationDrainDuration: 250s, proxyMetadata: {MINIMUM_DRAIN_DURATION: 250s}}";
            json!({ "sidecar.istio.io/nativeSidecar": "false", "proxy.istio.io/config": config })
        };
        let spec = json!({ "containers": [application], "terminationGracePeriodSeconds": 300 });
        shop.apply(&pod(name, &annotations, &spec).to_string())?;
    }
    for name in [NATIVE, CLASSIC] {
        shop.wait_for("condition=Ready", &format!("pod/{name}"))?;
        until_logged(&shop, name, "app", "waits")?;
        shop.kubectl(&["delete", "pod", name, "--wait=false"])?;
    }
    for name in [NATIVE, CLASSIC] {
        until_logged(&shop, name, "app", "SIGTERM")?;
    }
    // The native proxy drains at its preStop hook, and goes on serving.
    for name in [NATIVE, CLASSIC] {
        until_logged(&shop, name, "istio-proxy", "draining Envoy")?;
    }
    let native = shop.get(&format!("pod/{NATIVE}"))?;
    assert_eq!(proxy_of(&native)?["restartPolicy"], "Always");

    for name in [NATIVE, CLASSIC] {
        tell(&shop, name, "request")?;
        until_logged(&shop, "server", "app", &format!("GET /{name} "))?;
        until_logged(&shop, name, "istio-proxy", &format!("to {server}:8080 flags -"))?;
        tell(&shop, name, "end")?;
    }
    // A second SIGTERM ends the drain of the classic proxy.
    shop.exec(CLASSIC, "istio-proxy", &["/bin/busybox", "kill", "1"])?;
    for name in [NATIVE, CLASSIC] {
        shop.wait_for("delete", &format!("pod/{name}"))?;
    }
    shop.delete()
}

fn tell(shop: &Namespace<'_>, pod: &str, what: &str) -> Result<()> {
    let file = format!("/told/{what}");
    shop.exec(pod, "app", &["/bin/busybox", "touch", &file]).map(drop)
}

fn until_logged(shop: &Namespace<'_>, pod: &str, container: &str, line: &str) -> Result<()> {
    wait::until(&format!("{container} of {pod} logs {line:?}"), || {
        let log = shop.logs(pod, container).context("no log")?;
        ensure!(log.contains(line), "{log}");
        Ok(())
    })
}

const NATIVE: &str = "native";
const CLASSIC: &str = "classic";
