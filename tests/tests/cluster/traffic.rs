//! What the Envoys of two pods see of a request between them.

use anyhow::Result;
use e2e::namespace::{Namespace, name_of};
use e2e::proxy::{Connections, connections};
use serde_json::{Value, json};

use crate::injection::apply_examples;
use crate::stage::Stage;

pub(crate) fn both_envoys_count_what_is_captured(stage: &Stage) -> Result<()> {
    let cluster = stage.cluster_with_injector()?;
    let shop = cluster.namespace("traffic", &["istio-injection=enabled"])?;
    apply_examples(&shop)?;
    let server = shop.pod("app=web")?;
    let cluster_ip = shop.get("service/web")?["spec"]["clusterIP"].clone();
    let range = format!("{}/32", cluster_ip.as_str().unwrap_or_default());

    let client = shop.pod("app=client")?;
    let seen = request(&shop, &client, &server, "http://web/")?;
    assert_eq!(seen, Seen { by_client: 1, by_server: 1 });

    // The example's pod says that this port stays out of the mesh.
    let seen = request(&shop, &client, &server, "http://web:9090/")?;
    assert_eq!(seen, Seen { by_client: 1, by_server: 0 });

    let around = client_with(&shop, "by-range", "excludeOutboundIPRanges", &range)?;
    let seen = request(&shop, &around, &server, "http://web/")?;
    assert_eq!(seen, Seen { by_client: 0, by_server: 1 });

    let around = client_with(&shop, "by-port", "excludeOutboundPorts", "80")?;
    let seen = request(&shop, &around, &server, "http://web/")?;
    assert_eq!(seen, Seen { by_client: 0, by_server: 1 });

    shop.kubectl(&["patch", "deployment/web", "--patch", &only_port_8080_inbound()])?;
    shop.wait_until_available("web")?;
    let server = shop.pod("app=web")?;
    let seen = request(&shop, &client, &server, "http://web:9090/")?;
    assert_eq!(seen, Seen { by_client: 1, by_server: 0 });
    let seen = request(&shop, &client, &server, "http://web/")?;
    assert_eq!(seen, Seen { by_client: 1, by_server: 1 });
    shop.delete()
}

/// How many more connections each Envoy has counted after one request.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    by_client: u64,
    by_server: u64,
}

fn request(shop: &Namespace<'_>, client: &Value, server: &Value, url: &str) -> Result<Seen> {
    let before = (connections(client)?, connections(server)?);
    let page = shop.exec(name_of(client), "client", &["wget", "-q", "-O", "-", url])?;
    assert_eq!(page, "Hello from web.\n", "{url}");
    let after = (connections(client)?, connections(server)?);
    let outbound = |(client, _): &(Connections, Connections)| client.outbound;
    let inbound = |(_, server): &(Connections, Connections)| server.inbound;
    Ok(Seen {
        by_client: outbound(&after) - outbound(&before),
        by_server: inbound(&after) - inbound(&before),
    })
}

fn client_with(shop: &Namespace<'_>, name: &str, annotation: &str, value: &str) -> Result<Value> {
    let annotation = format!("traffic.sidecar.istio.io/{annotation}");
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "annotations": { annotation: value } },
        "spec": {
            "containers": [{
                "name": "client",
                "image": "busybox:1.37",
                "command": ["sh", "-c", "trap exit TERM; sleep infinity & wait"],
            }],
        },
    });
    shop.apply(&pod.to_string())?;
    let object = format!("pod/{name}");
    shop.wait_for("condition=Ready", &object)?;
    shop.get(&object)
}

fn only_port_8080_inbound() -> String {
    let annotations = json!({
        "traffic.sidecar.istio.io/excludeInboundPorts": null,
        "traffic.sidecar.istio.io/includeInboundPorts": "8080",
    });
    json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } }).to_string()
}
