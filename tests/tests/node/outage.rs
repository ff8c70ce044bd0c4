//! An uninstalled control plane, and its return.

use anyhow::{Result, ensure};
use e2e::namespace::{Namespace, address_of, name_of};
use e2e::{http, wait};
use serde_json::{Value, json};

use crate::app_pod::{app, pod, status_of};
use crate::fixture::Fixture;
use crate::injection::apply_examples;

pub(crate) fn traffic_outlives_the_control_plane(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let control_plane = fixture.control_plane();
    let shop = cluster.namespace("outage", &["istio-injection=enabled"])?;
    apply_examples(&shop)?;
    shop.wait_until_service_answers("web", 80)?;
    let client = shop.pod("app=client")?;

    control_plane.uninstall(cluster)?;
    // A failed assertion must not take the control plane from other stories.
    let survived = survive(&shop, &client);
    control_plane.install(cluster)?;
    survived?;

    until_readiness(&client, |text| text == "ready\n")?;
    assert_eq!(restart_epoch(&shop, &client)?, 1);
    expect_page(&shop, &client)?;
    shop.wait_for("condition=Ready", "pod/late")?;
    shop.delete()
}

/// Checks the mesh without its control plane.
fn survive(shop: &Namespace<'_>, client: &Value) -> Result<()> {
    until_readiness(client, |text| text.contains("no connection to the control plane"))?;
    expect_page(shop, client)?;

    // Another bootstrap, which a hot restart would apply.
    let config = "proxy.istio.io/config=concurrency: 1";
    shop.kubectl(&["annotate", "pod", name_of(client), config])?;
    let refused = "Envoy keeps its old bootstrap: a new Envoy would wait for the control plane";
    until_readiness(client, |text| text.contains(refused))?;
    assert_eq!(restart_epoch(shop, client)?, 0);
    expect_page(shop, client)?;

    let containers = json!({ "containers": [app("app", &["--http=8080"])] });
    shop.apply(&pod("late", &json!({}), &containers).to_string())?;
    wait::until("the proxy of a new pod waits", || {
        let late = shop.get("pod/late")?;
        let proxy = status_of(&late, "istio-proxy");
        ensure!(proxy["state"]["running"].is_object(), "{proxy}");
        assert_ne!(proxy["started"], true, "{proxy}");
        Ok(())
    })
}

fn expect_page(shop: &Namespace<'_>, client: &Value) -> Result<()> {
    let page = ["wget", "-q", "-O", "-", "http://web/"];
    let page = shop.exec(name_of(client), "client", &page)?;
    ensure!(page == "Hello from web.\n", "{page}");
    Ok(())
}

/// Waits for a text of the agent's readiness. The pod is ready all the time.
fn until_readiness(client: &Value, expected: impl Fn(&str) -> bool) -> Result<()> {
    let address = address_of(client)?;
    wait::until("the agent's readiness has another text", || {
        let text = http::get((address, 15020).into(), "/healthz/ready")?.expect_ok()?;
        ensure!(expected(&text), "{text}");
        Ok(())
    })
}

fn restart_epoch(shop: &Namespace<'_>, client: &Value) -> Result<u64> {
    let ask = ["/bin/busybox", "wget", "-q", "-O", "-", "http://127.0.0.1:15000/server_info"];
    let info: Value = serde_json::from_str(&shop.exec(name_of(client), "istio-proxy", &ask)?)?;
    Ok(info["command_line_options"]["restart_epoch"].as_u64().unwrap_or_default())
}
