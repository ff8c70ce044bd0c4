//! Applications that wait for their proxy, and others.

use anyhow::{Result, ensure};
use e2e::namespace::Namespace;
use e2e::wait;
use serde_json::{Value, json};

use crate::app_pod::{app, auto_proxy, pod, status_of};
use crate::fixture::Fixture;

pub(crate) fn application_is_held_until_its_proxy_is_ready(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let shop = cluster.namespace("hold", &["istio-injection=enabled"])?;
    for (name, hold) in [("held", true), ("free", false)] {
        let config = format!("holdApplicationUntilProxyStarts: {hold}");
        let annotations = json!({
            "proxy.istio.io/config": config,
            "sidecar.istio.io/nativeSidecar": "false",
        });
        let containers = json!([app("app", &["--http=8080"]), proxy_behind_a_gate()]);
        shop.apply(&pod(name, &annotations, &json!({ "containers": containers })).to_string())?;
    }
    let held = shop.get("pod/held")?;
    assert_eq!(names(&held), ["istio-proxy", "app"]);
    assert_eq!(names(&shop.get("pod/free")?), ["app", "istio-proxy"]);

    // Neither proxy is ready. One application runs, and the other one waits.
    until(&shop, "free", "its application runs", |pod| expect_running(pod, "app", true))?;
    until(&shop, "free", "its proxy runs", |pod| expect_running(pod, "istio-proxy", true))?;
    wait::until("the proxy of the held pod is at its gate", || {
        shop.exec("held", "istio-proxy", &["/bin/busybox", "true"])
    })?;
    expect_running(&shop.get("pod/held")?, "app", false)?;

    for name in ["held", "free"] {
        let open = ["/bin/busybox", "touch", "/var/lib/istio/data/open"];
        shop.exec(name, "istio-proxy", &open)?;
    }
    for name in ["held", "free"] {
        shop.wait_for("condition=Ready", &format!("pod/{name}"))?;
    }
    let held = shop.get("pod/held")?;
    let started = |container| &status_of(&held, container)["state"]["running"]["startedAt"];
    let (proxy, application) = (started("istio-proxy").as_str(), started("app").as_str());
    assert!(proxy.is_some() && proxy <= application, "{proxy:?}, {application:?}");
    shop.delete()
}

/// Returns a user-supplied proxy that starts when it finds a file.
fn proxy_behind_a_gate() -> Value {
    let gate = "until [ -e /var/lib/istio/data/open ]; do busybox sleep 0.1; done; \
        exec pilot-agent \"$@\"";
    let mut proxy = auto_proxy();
    proxy["command"] = json!(["/bin/busybox", "sh", "-c", gate, "pilot-agent"]);
    proxy
}

fn names(pod: &Value) -> Vec<&str> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers.filter_map(|container| container["name"].as_str()).collect()
}

fn expect_running(pod: &Value, container: &str, running: bool) -> Result<()> {
    let status = status_of(pod, container);
    ensure!(status["state"]["running"].is_object() == running, "{container}: {status}");
    Ok(())
}

fn until(
    shop: &Namespace<'_>,
    name: &str,
    what: &str,
    expect: impl Fn(&Value) -> Result<()>,
) -> Result<()> {
    let object = format!("pod/{name}");
    wait::until(&format!("{name}: {what}"), || expect(&shop.get(&object)?))
}
