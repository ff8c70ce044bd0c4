//! Connections counted by the Envoys of two pods for a request between them.

use anyhow::Result;
use e2e::namespace::{Namespace, address_of, name_of};
use e2e::proxy::{Connections, connections};
use e2e::{http, wait};
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::injection::apply_examples;

pub(crate) fn both_envoys_count_captured_traffic(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let shop = cluster.namespace("traffic", &["istio-injection=enabled"])?;
    apply_examples(&shop)?;
    let server = shop.pod("app=web")?;
    let service = shop.wait_until_service_answers("web", 80)?;
    shop.wait_until_service_answers("web", 9090)?;

    let client = shop.pod("app=client")?;
    let seen = request(&shop, &client, &server, "http://web/")?;
    assert_eq!(seen, CountedConnections { by_client: 1, by_server: 1 });

    // The example's pod excludes this port from the mesh.
    let seen = request(&shop, &client, &server, "http://web:9090/")?;
    assert_eq!(seen, CountedConnections { by_client: 1, by_server: 0 });

    let range = format!("{service}/32");
    let around = pod_with(&shop, "by-range", CLIENT, "excludeOutboundIPRanges", &range)?;
    let seen = request(&shop, &around, &server, "http://web/")?;
    assert_eq!(seen, CountedConnections { by_client: 0, by_server: 1 });

    let around = pod_with(&shop, "by-port", CLIENT, "excludeOutboundPorts", "80")?;
    let seen = request(&shop, &around, &server, "http://web/")?;
    assert_eq!(seen, CountedConnections { by_client: 0, by_server: 1 });

    let picky = pod_with(&shop, "picky", SERVER, "includeInboundPorts", "8080")?;
    let address = address_of(&picky)?;
    for port in [8080, 9090] {
        wait::until("its server listens", || http::get((address, port).into(), "/"))?;
    }
    let seen = request(&shop, &client, &picky, &format!("http://{address}:8080/"))?;
    assert_eq!(seen, CountedConnections { by_client: 1, by_server: 1 });
    let seen = request(&shop, &client, &picky, &format!("http://{address}:9090/"))?;
    assert_eq!(seen, CountedConnections { by_client: 1, by_server: 0 });
    shop.delete()
}

/// Number of further connections that each Envoy has counted after one request.
#[derive(Debug, PartialEq, Eq)]
struct CountedConnections {
    by_client: u64,
    by_server: u64,
}

fn request(
    shop: &Namespace<'_>,
    client: &Value,
    server: &Value,
    url: &str,
) -> Result<CountedConnections> {
    let before = (connections(client)?, connections(server)?);
    let page = shop.exec(name_of(client), "client", &["wget", "-q", "-O", "-", url])?;
    assert_eq!(page, "Hello from web.\n", "{url}");
    let after = (connections(client)?, connections(server)?);
    let outbound = |(client, _): &(Connections, Connections)| client.outbound;
    let inbound = |(_, server): &(Connections, Connections)| server.inbound;
    Ok(CountedConnections {
        by_client: outbound(&after) - outbound(&before),
        by_server: inbound(&after) - inbound(&before),
    })
}

fn pod_with(
    shop: &Namespace<'_>,
    name: &str,
    command: &str,
    annotation: &str,
    value: &str,
) -> Result<Value> {
    let annotation = format!("traffic.sidecar.istio.io/{annotation}");
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "annotations": { annotation: value } },
        "spec": {
            "containers": [{
                "name": "client",
                "image": "busybox:1.37",
                "command": ["sh", "-c", command],
            }],
        },
    });
    shop.apply(&pod.to_string())?;
    let object = format!("pod/{name}");
    shop.wait_for("condition=Ready", &object)?;
    shop.get(&object)
}

const CLIENT: &str = "trap exit TERM; sleep infinity & wait";
const SERVER: &str = "mkdir /www; echo 'Hello from web.' >/www/index.html; trap exit TERM; \
    httpd -f -p 9090 -h /www & httpd -f -p 8080 -h /www & wait";
