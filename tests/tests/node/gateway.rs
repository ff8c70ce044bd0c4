//! A gateway: a pod whose own program is the proxy, with `image: auto`.

use anyhow::{Result, ensure};
use e2e::namespace::address_of;
use e2e::{http, wait};
use serde_json::json;

use crate::app_pod::{auto_proxy, pod, proxy_of};
use crate::fixture::Fixture;

pub(crate) fn gateway_answers_and_captures_nothing(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let edge = cluster.namespace("gateway", &["istio-injection=enabled"])?;
    let annotations = json!({ "inject.istio.io/templates": "gateway" });
    let spec = json!({ "containers": [auto_proxy()] });
    edge.apply(&pod("gateway", &annotations, &spec).to_string())?;
    edge.wait_for("condition=Ready", "pod/gateway")?;

    let gateway = edge.get("pod/gateway")?;
    let proxy = proxy_of(&gateway)?;
    assert_eq!(proxy["image"], "docker.io/istio/proxyv2:1.28.0");
    assert_eq!(proxy["args"][1], "router");
    assert!(gateway["spec"]["initContainers"].is_null(), "{}", gateway["spec"]);
    let sysctl = json!({ "name": "net.ipv4.ip_unprivileged_port_start", "value": "0" });
    assert_eq!(gateway["spec"]["securityContext"]["sysctls"], json!([sysctl]));

    let address = address_of(&gateway)?;
    let ready = http::get((address, 15021).into(), "/healthz/ready")?;
    assert_eq!(ready.status, 200, "{}", ready.body);
    let own = http::get((address, 15020).into(), "/healthz/ready")?;
    assert_eq!(own.status, 200, "{}", own.body);
    // By its admin interface, it has only these listeners.
    let ask = ["/bin/busybox", "wget", "-q", "-O", "-", "http://127.0.0.1:15000/listeners"];
    let listeners = edge.exec("gateway", "istio-proxy", &ask)?;
    let mut names: Vec<_> = listeners.lines().filter_map(|line| line.split("::").next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["prometheus_stats", "readiness"]);
    // A port below 1024, without root.
    let serve = "mkdir /etc/istio/proxy/www && busybox httpd -p 80 -h /etc/istio/proxy/www";
    edge.exec("gateway", "istio-proxy", &["/bin/busybox", "sh", "-c", serve])?;
    wait::until("port 80 answers", || {
        let answer = http::get((address, 80).into(), "/nothing")?;
        ensure!(answer.status == 404, "it answers {}", answer.status);
        Ok(())
    })?;
    edge.delete()
}
