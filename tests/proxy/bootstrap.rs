//! Envoy's static bootstrap: connections pass through to their original destination.

use serde_json::{Value, json};

use crate::app_probe::AppProbe;

/// What the bootstrap needs to know of its pod.
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) address: String,
    pub(crate) families: Families,
    pub(crate) app_probes: Vec<AppProbe>,
}

/// The families that the pod's kernel has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Families {
    Ipv4,
    Both,
}

/// The bootstrap of one pod's Envoy.
pub(crate) fn bootstrap(pod: &Pod) -> Value {
    let Pod { name, namespace, address, families, app_probes } = pod;
    let ready = json!({
        "match": { "path": "/healthz/ready" },
        "direct_response": { "status": 200 },
    });
    let statistics = json!({
        "match": { "path": "/stats/prometheus" },
        "route": { "cluster": "admin" },
    });
    let mut agent_routes: Vec<Value> = app_probes.iter().map(app_probe_route).collect();
    agent_routes.extend([ready.clone(), statistics.clone()]);
    let mut clusters = vec![
        original_destination("outbound"),
        from_passthrough_address(original_destination("inbound")),
        static_cluster("admin", "127.0.0.1", ADMIN_PORT.into()),
    ];
    clusters.extend(
        app_probes.iter().map(|probe| {
            from_passthrough_address(static_cluster(&probe.path, address, probe.port))
        }),
    );
    json!({
        "node": {
            "id": format!("sidecar~{address}~{name}.{namespace}~{namespace}.svc.cluster.local"),
            "cluster": format!("{name}.{namespace}"),
        },
        "admin": { "address": socket_address("127.0.0.1", ADMIN_PORT.into()) },
        "static_resources": {
            "listeners": [
                capturing_listener("outbound", OUTBOUND_PORT, *families),
                capturing_listener("inbound", INBOUND_PORT, *families),
                http_listener("agent", AGENT_PORT, &agent_routes),
                http_listener("readiness", READINESS_PORT, &[ready]),
                http_listener("statistics", STATISTICS_PORT, &[statistics]),
            ],
            "clusters": clusters,
        },
    })
}

/// Envoy's admin interface, on loopback.
pub(crate) const ADMIN_PORT: u16 = 15000;

fn capturing_listener(direction: &str, port: u64, families: Families) -> Value {
    let other_addresses = match families {
        Families::Ipv4 => json!([]),
        Families::Both => json!([{ "address": socket_address("::", port) }]),
    };
    json!({
        "name": direction,
        "address": socket_address("0.0.0.0", port),
        "additional_addresses": other_addresses,
        "listener_filters": [{
            "name": "original_dst",
            "typed_config": typed("filters.listener.original_dst.v3.OriginalDst"),
        }],
        "filter_chains": [{
            "filters": [{
                "name": "tcp_proxy",
                "typed_config": {
                    "@type": type_url("filters.network.tcp_proxy.v3.TcpProxy"),
                    "stat_prefix": direction,
                    "cluster": direction,
                    "access_log": [access_log(direction)],
                },
            }],
        }],
    })
}

/// One line per connection, with the original destination, in the container's log.
fn access_log(direction: &str) -> Value {
    json!({
        "name": "stdout",
        "typed_config": {
            "@type": type_url("access_loggers.stream.v3.StdoutAccessLog"),
            "log_format": {
                "text_format_source": {
                    "inline_string": format!(
                        "{direction} from %DOWNSTREAM_REMOTE_ADDRESS% to \
                         %DOWNSTREAM_LOCAL_ADDRESS% flags %RESPONSE_FLAGS%\n"
                    ),
                },
            },
        },
    })
}

fn http_listener(name: &str, port: u64, routes: &[Value]) -> Value {
    json!({
        "name": name,
        "address": socket_address("0.0.0.0", port),
        "filter_chains": [{
            "filters": [{
                "name": "http_connection_manager",
                "typed_config": {
                    "@type": type_url(
                        "filters.network.http_connection_manager.v3.HttpConnectionManager"
                    ),
                    "stat_prefix": name,
                    "http_filters": [{
                        "name": "router",
                        "typed_config": typed("filters.http.router.v3.Router"),
                    }],
                    "route_config": {
                        "virtual_hosts": [{ "name": name, "domains": ["*"], "routes": routes }],
                    },
                },
            }],
        }],
    })
}

fn original_destination(name: &str) -> Value {
    json!({
        "name": name,
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "5s",
    })
}

/// From `127.0.0.6` and `::6` a connection to the application, which goes to the
/// pod's own address, is not captured again.
fn from_passthrough_address(mut cluster: Value) -> Value {
    cluster["upstream_bind_config"] = json!({
        "source_address": { "address": "127.0.0.6", "port_value": 0 },
        "extra_source_addresses": [{ "address": { "address": "::6", "port_value": 0 } }],
    });
    cluster
}

fn static_cluster(name: &str, address: &str, port: u64) -> Value {
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{
                "lb_endpoints": [{ "endpoint": { "address": socket_address(address, port) } }],
            }],
        },
    })
}

fn app_probe_route(probe: &AppProbe) -> Value {
    json!({
        "match": { "path": probe.path },
        "route": { "cluster": probe.path, "prefix_rewrite": probe.app_path },
    })
}

fn socket_address(address: &str, port: u64) -> Value {
    json!({ "socket_address": { "address": address, "port_value": port } })
}

fn typed(extension: &str) -> Value {
    json!({ "@type": type_url(extension) })
}

fn type_url(extension: &str) -> String {
    format!("type.googleapis.com/envoy.extensions.{extension}")
}

const OUTBOUND_PORT: u64 = 15001;
const INBOUND_PORT: u64 = 15006;
const AGENT_PORT: u64 = 15020;
const READINESS_PORT: u64 = 15021;
const STATISTICS_PORT: u64 = 15090;
