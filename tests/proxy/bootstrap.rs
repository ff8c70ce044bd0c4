//! Envoy's static bootstrap: connections pass through to their original destination.

use serde_json::{Value, json};

/// What the bootstrap needs to know of its pod.
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) address: String,
    pub(crate) families: Families,
}

/// The families that the pod's kernel has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Families {
    Ipv4,
    Both,
}

/// The bootstrap of one pod's Envoy.
pub(crate) fn bootstrap(pod: &Pod) -> Value {
    let Pod { name, namespace, address, families } = pod;
    json!({
        "node": {
            "id": format!("sidecar~{address}~{name}.{namespace}~{namespace}.svc.cluster.local"),
            "cluster": format!("{name}.{namespace}"),
        },
        "admin": { "address": socket_address("127.0.0.1", ADMIN_PORT) },
        "static_resources": {
            "listeners": [
                capturing_listener("outbound", OUTBOUND_PORT, *families),
                capturing_listener("inbound", INBOUND_PORT, *families),
                http_listener("readiness", READINESS_PORT, &json!({
                    "match": { "path": "/healthz/ready" },
                    "direct_response": { "status": 200 },
                })),
                http_listener("statistics", STATISTICS_PORT, &json!({
                    "match": { "path": "/stats/prometheus" },
                    "route": { "cluster": "admin" },
                })),
            ],
            "clusters": [
                original_destination("outbound"),
                inbound_cluster(),
                admin_cluster(),
            ],
        },
    })
}

/// Envoy's admin interface, on loopback.
pub(crate) const ADMIN_PORT: u16 = 15000;

fn capturing_listener(direction: &str, port: u16, families: Families) -> Value {
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

fn http_listener(name: &str, port: u16, route: &Value) -> Value {
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
                        "virtual_hosts": [{ "name": name, "domains": ["*"], "routes": [route] }],
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

/// From 127.0.0.6 and ::6 the connection to the application, which goes to the
/// pod's own address, is not captured again.
fn inbound_cluster() -> Value {
    let mut cluster = original_destination("inbound");
    cluster["upstream_bind_config"] = json!({
        "source_address": { "address": "127.0.0.6", "port_value": 0 },
        "extra_source_addresses": [{ "address": { "address": "::6", "port_value": 0 } }],
    });
    cluster
}

fn admin_cluster() -> Value {
    json!({
        "name": "admin",
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": "admin",
            "endpoints": [{
                "lb_endpoints": [{
                    "endpoint": { "address": socket_address("127.0.0.1", ADMIN_PORT) },
                }],
            }],
        },
    })
}

fn socket_address(address: &str, port: u16) -> Value {
    json!({ "socket_address": { "address": address, "port_value": port } })
}

fn typed(extension: &str) -> Value {
    json!({ "@type": type_url(extension) })
}

fn type_url(extension: &str) -> String {
    format!("type.googleapis.com/envoy.extensions.{extension}")
}

const OUTBOUND_PORT: u16 = 15001;
const INBOUND_PORT: u16 = 15006;
const READINESS_PORT: u16 = 15021;
const STATISTICS_PORT: u16 = 15090;
