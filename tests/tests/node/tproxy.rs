//! Capture that keeps the client's address (TPROXY).

use anyhow::{Context, Result, ensure};
use e2e::namespace::{Namespace, address_of, name_of};
use e2e::proxy::connections;
use e2e::{http, wait};
use serde_json::{Value, json};

use crate::app_pod::{app, auto_proxy, pod, proxy_of};
use crate::fixture::Fixture;

pub(crate) fn tproxy_keeps_the_client_address(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let shop = cluster.namespace("tproxy", &["istio-injection=enabled"])?;
    let tproxy = json!({ "sidecar.istio.io/interceptionMode": "TPROXY" });
    for (name, annotations) in [("redirected", &json!({})), ("transparent", &tproxy)] {
        let mut server = app("app", &["--http=8080"]);
        // A pod is ready when it answers.
        server["readinessProbe"] =
            json!({ "httpGet": { "path": "/up", "port": 8080 }, "periodSeconds": 1 });
        let spec = json!({ "containers": [server] });
        shop.apply(&pod(name, annotations, &spec).to_string())?;
    }
    // The user replaces the capability that the proxy needs for TPROXY by another one.
    let mut powerless = auto_proxy();
    powerless["securityContext"] = json!({ "capabilities": { "add": ["NET_BIND_SERVICE"] } });
    let spec = json!({ "containers": [app("app", &["--http=8080"]), powerless] });
    shop.apply(&pod("powerless", &tproxy, &spec).to_string())?;
    for name in ["redirected", "transparent"] {
        shop.wait_for("condition=Ready", &format!("pod/{name}"))?;
    }
    let redirected = shop.get("pod/redirected")?;
    let transparent = shop.get("pod/transparent")?;
    let security = &proxy_of(&transparent)?["securityContext"];
    assert_eq!(security["capabilities"], json!({ "add": ["NET_ADMIN"], "drop": ["ALL"] }));
    assert_eq!((&security["runAsUser"], &security["runAsGroup"]), (&json!(0), &json!(1337)));
    assert_eq!(security["allowPrivilegeEscalation"], false);

    wait::until("Envoy may not be transparent without the capability", || {
        let agent = (address_of(&shop.get("pod/powerless")?)?, 15020).into();
        let readiness = http::get(agent, "/healthz/ready")?;
        ensure!(readiness.status == 503, "ready: {}", readiness.body);
        ensure!(readiness.body.contains("rejected it (LDS"), "{}", readiness.body);
        Ok(())
    })?;

    let machine = transparent["status"]["hostIP"].as_str().context("the node has no address")?;
    assert_eq!(peer_of_machine(&redirected)?, "127.0.0.6");
    assert_eq!(peer_of_machine(&transparent)?, machine);

    let client = address_of(&redirected)?.to_string();
    assert_eq!(peer_of_pod(&shop, &redirected, &transparent)?, client);
    let server = address_of(&transparent)?.to_string();
    assert_eq!(peer_of_pod(&shop, &transparent, &transparent)?, server, "a pod that asks itself");
    assert_eq!(peer_of_pod(&shop, &transparent, &redirected)?, "127.0.0.6");
    shop.delete()
}

/// Returns the machine's address as the application sees it. Checks that its Envoy has counted the
/// connection.
fn peer_of_machine(server: &Value) -> Result<String> {
    let before = connections(server)?;
    let page = http::get((address_of(server)?, 8080).into(), "/peer")?.expect_ok()?;
    assert_eq!(connections(server)?.inbound, before.inbound + 1, "{}", name_of(server));
    Ok(page.trim().to_owned())
}

/// Returns a pod's address as the application sees it; the pod may be its own.
fn peer_of_pod(shop: &Namespace<'_>, client: &Value, server: &Value) -> Result<String> {
    let before = (connections(client)?.outbound, connections(server)?.inbound);
    let url = format!("http://{}:8080/peer", address_of(server)?);
    let ask = ["/bin/busybox", "wget", "-q", "-O", "-", &url];
    let page = shop.exec(name_of(client), "app", &ask)?;
    let after = (connections(client)?.outbound, connections(server)?.inbound);
    // A connection of a pod to itself does not leave it, so neither direction is captured.
    let count = u64::from(name_of(client) != name_of(server));
    assert_eq!(after, (before.0 + count, before.1 + count), "{url} from {}", name_of(client));
    Ok(page.trim().to_owned())
}
