//! Probes and lifecycle handlers of every kind, sent by the kubelet through the agent.

use anyhow::{Result, ensure};
use e2e::namespace::{Namespace, address_of};
use e2e::{http, wait};
use serde_json::{Value, json};

use crate::app_pod::{app, expect_ready, fail, mend, pod, proxy_of, status_of, variable};
use crate::fixture::Fixture;

pub(crate) fn kubelet_probes_the_application_through_its_proxy(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let shop = cluster.namespace("probes", &["istio-injection=enabled"])?;
    shop.apply(&probed().to_string())?;
    shop.wait_for("condition=Ready", "pod/probed")?;
    expect_rewritten(&shop.get("pod/probed")?)?;
    // A pod can be Ready before the first liveness probe.
    wait::until("every probe has been asked", || expect_asked(&shop))?;
    expect_answers_of_the_agent(&shop)?;

    // Failing and recovering readiness probes have their effect.
    for (container, what) in READINESS {
        fail(&shop, "probed", container, what)?;
    }
    until(&shop, "no container is ready", |pod| expect_ready(pod, &CONTAINERS, false))?;
    for (container, what) in READINESS {
        mend(&shop, "probed", container, what)?;
    }
    until(&shop, "every container is ready again", |pod| expect_ready(pod, &CONTAINERS, true))?;

    // A container with a failing liveness probe is restarted, after its preStop handler, which
    // calls another container's page.
    for (container, what) in &LIVENESS[1..] {
        fail(&shop, "probed", container, what)?;
    }
    until(&shop, "two containers have been restarted", |pod| {
        expect_restarts(pod, &[("web", 0), ("raw", 1), ("grpc", 1)])
    })?;
    wait::until("the handlers of both lives have been called", || {
        let log = shop.logs("probed", "web")?;
        ensure!(log.contains("GET /prestop port=8080"), "{log}");
        ensure!(log.matches("GET /poststart port=8080").count() == 2, "{log}");
        Ok(())
    })?;
    fail(&shop, "probed", LIVENESS[0].0, LIVENESS[0].1)?;
    until(&shop, "the last container has been restarted too", |pod| {
        expect_restarts(pod, &[("web", 1), ("raw", 1), ("grpc", 1)])
    })?;
    until(&shop, "every container is well", |pod| expect_ready(pod, &CONTAINERS, true))?;
    shop.delete()
}

/// Returns a pod with every kind of probe: by name and number of the port, with headers, over TLS.
fn probed() -> Value {
    let mut web = app("web", &["--http=8080", "--https=8443"]);
    web["ports"] = json!([{ "name": "http", "containerPort": 8080 }]);
    web["startupProbe"] = often(json!({ "httpGet": { "path": "/started", "port": "http" } }), 60);
    web["readinessProbe"] = often(
        json!({
            "httpGet": {
                "path": "/checked",
                "port": "http",
                "httpHeaders": [
                    { "name": "Host", "value": "probe.example" },
                    { "name": "X-Probe", "value": "yes" },
                ],
            },
        }),
        1,
    );
    web["livenessProbe"] =
        often(json!({ "httpGet": { "path": "/alive", "port": 8443, "scheme": "HTTPS" } }), 1);
    // The next container's handlers call this container, so it must listen by then.
    let listening = "until busybox wget -q -O /dev/null http://127.0.0.1:8080/up; do \
        busybox sleep 0.1; done";
    web["lifecycle"] =
        json!({ "postStart": { "exec": { "command": ["/bin/busybox", "sh", "-c", listening] } } });

    let mut raw = app("raw", &["--tcp=9000", "--tcp=9001"]);
    raw["ports"] = json!([{ "name": "raw", "containerPort": 9000 }]);
    raw["startupProbe"] = often(json!({ "tcpSocket": { "port": 9001 } }), 60);
    raw["readinessProbe"] = often(json!({ "tcpSocket": { "port": "raw" } }), 1);
    raw["livenessProbe"] = often(json!({ "tcpSocket": { "port": 9001 } }), 1);
    raw["lifecycle"] = json!({
        "postStart": { "httpGet": { "path": "/poststart", "port": 8080 } },
        "preStop": { "httpGet": { "path": "/prestop", "port": 8080 } },
    });

    let mut grpc = app("grpc", &["--http=9002"]);
    grpc["startupProbe"] = often(json!({ "grpc": { "port": 9002, "service": "started" } }), 60);
    grpc["readinessProbe"] = often(json!({ "grpc": { "port": 9002, "service": "ready" } }), 1);
    grpc["livenessProbe"] = often(json!({ "grpc": { "port": 9002 } }), 1);
    pod("probed", &json!({}), &json!({ "containers": [web, raw, grpc] }))
}

fn often(mut probe: Value, failures: u32) -> Value {
    probe["periodSeconds"] = 1.into();
    // One failure restarts a container, and a busy machine is slow.
    probe["timeoutSeconds"] = 30.into();
    probe["failureThreshold"] = failures.into();
    probe
}

fn expect_rewritten(pod: &Value) -> Result<()> {
    let kinds =
        [("startupProbe", "startupz"), ("readinessProbe", "readyz"), ("livenessProbe", "livez")];
    for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
        for (kind, word) in kinds {
            let probe = &container[kind];
            let name = container["name"].as_str().unwrap_or_default();
            assert_eq!(probe["httpGet"]["port"], 15020, "{probe}");
            assert_eq!(probe["httpGet"]["path"], format!("/app-health/{name}/{word}"), "{probe}");
            assert!(probe["tcpSocket"].is_null() && probe["grpc"].is_null(), "{probe}");
        }
    }
    let probers = variable(proxy_of(pod)?, "ISTIO_KUBE_APP_PROBERS")?;
    let probers: Value = serde_json::from_str(probers)?;
    assert_eq!(probers.as_object().map(serde_json::Map::len), Some(11), "{probers:#}");
    Ok(())
}

/// Checks the application's log of its requests and their clients.
fn expect_asked(shop: &Namespace<'_>) -> Result<()> {
    let web = shop.logs("probed", "web")?;
    for line in [
        "GET /started port=8080 peer=127.0.0.6 tls=false",
        "GET /checked port=8080 peer=127.0.0.6 tls=false host=probe.example x-probe=yes \
         user-agent=kube-probe/",
        "GET /alive port=8443 peer=127.0.0.6 tls=true",
        "GET /poststart port=8080",
    ] {
        ensure!(web.contains(line), "no {line:?} in\n{web}");
    }
    let grpc = shop.logs("probed", "grpc")?;
    for service in ["\"started\"", "\"ready\"", "\"\""] {
        ensure!(grpc.contains(&format!("health of {service}")), "no {service} in\n{grpc}");
    }
    Ok(())
}

/// Checks the agent's answers to clients other than the kubelet.
fn expect_answers_of_the_agent(shop: &Namespace<'_>) -> Result<()> {
    let agent = (address_of(&shop.get("pod/probed")?)?, 15020).into();
    let unknown = http::get(agent, "/app-health/nobody/livez")?;
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("ISTIO_KUBE_APP_PROBERS"), "{}", unknown.body);
    assert_eq!(http::get(agent, "/drain")?.status, 405);
    let from_elsewhere = http::send(agent, "POST", "/drain")?;
    assert_eq!(from_elsewhere.status, 403, "{}", from_elsewhere.body);
    assert!(http::get(agent, "/stats/prometheus")?.expect_ok()?.contains("envoy_server_live"));
    Ok(())
}

fn expect_restarts(pod: &Value, expected: &[(&str, u32)]) -> Result<()> {
    for (container, restarts) in expected {
        let status = status_of(pod, container);
        ensure!(status["restartCount"] == *restarts, "{container}: {status}");
    }
    Ok(())
}

fn until(shop: &Namespace<'_>, what: &str, expect: impl Fn(&Value) -> Result<()>) -> Result<()> {
    wait::until(what, || expect(&shop.get("pod/probed")?))
}

const CONTAINERS: [&str; 3] = ["web", "raw", "grpc"];
const READINESS: [(&str, &str); 3] = [("web", "checked"), ("raw", "tcp-9000"), ("grpc", "ready")];
const LIVENESS: [(&str, &str); 3] = [("web", "alive"), ("raw", "tcp-9001"), ("grpc", "server")];
