//! Envoy's static bootstrap: connections pass through to their original destination.

use serde_json::{Value, json};

use crate::admin;
use crate::arguments::Role;
use crate::environment::{Families, Interception, Pod};

/// Returns the bootstrap of one pod's Envoy.
pub(crate) fn bootstrap(pod: &Pod, role: Role) -> Value {
    let Pod { name, namespace, address, status_port, .. } = pod;
    let kind = match role {
        Role::Sidecar => "sidecar",
        Role::Router => "router",
    };
    let mut listeners =
        vec![http_listener("statistics", STATISTICS_PORT, "/stats/prometheus", "admin")];
    let mut clusters = vec![on_loopback("admin", admin::PORT)];
    if let Some(port) = status_port {
        listeners.push(http_listener("readiness", READINESS_PORT, "/healthz/ready", "agent"));
        clusters.push(on_loopback("agent", *port));
    }
    if role == Role::Sidecar {
        listeners.extend([outbound_listener(pod), inbound_listener(pod)]);
        clusters.extend([original_destination("outbound"), inbound_cluster(pod)]);
    }
    json!({
        "node": {
            "id": format!("{kind}~{address}~{name}.{namespace}~{namespace}.svc.cluster.local"),
            "cluster": format!("{name}.{namespace}"),
        },
        "admin": { "address": socket_address("127.0.0.1", admin::PORT) },
        "static_resources": { "listeners": listeners, "clusters": clusters },
    })
}

fn outbound_listener(pod: &Pod) -> Value {
    capturing_listener("outbound", OUTBOUND_PORT, pod.families, &[original_destination_filter()])
}

/// Returns the inbound listener. With TPROXY a connection keeps its destination. The proxy's
/// connection to the application has the client's source address, and the mark by which the rules
/// distinguish it from the client's.
fn inbound_listener(pod: &Pod) -> Value {
    let mut filters = vec![original_destination_filter()];
    if pod.interception == Interception::Tproxy {
        filters.push(json!({
            "name": "original_src",
            "typed_config": {
                "@type": type_url("filters.listener.original_src.v3.OriginalSrc"),
                "mark": TPROXY_MARK,
            },
        }));
    }
    let mut listener = capturing_listener("inbound", INBOUND_PORT, pod.families, &filters);
    if pod.interception == Interception::Tproxy {
        listener["transparent"] = true.into();
    }
    listener
}

fn inbound_cluster(pod: &Pod) -> Value {
    let cluster = original_destination("inbound");
    match pod.interception {
        Interception::Redirect => from_passthrough_address(cluster),
        Interception::Tproxy => cluster,
    }
}

fn original_destination_filter() -> Value {
    json!({
        "name": "original_dst",
        "typed_config": typed("filters.listener.original_dst.v3.OriginalDst"),
    })
}

fn capturing_listener(direction: &str, port: u16, families: Families, filters: &[Value]) -> Value {
    let other_addresses = match families {
        Families::Ipv4 => json!([]),
        Families::Both => json!([{ "address": socket_address("::", port) }]),
    };
    json!({
        "name": direction,
        "address": socket_address("0.0.0.0", port),
        "additional_addresses": other_addresses,
        "listener_filters": filters,
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

/// Returns the access log: one line per connection, with the original destination, in the
/// container's log.
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

/// Returns a listener that forwards one path.
fn http_listener(name: &str, port: u16, path: &str, cluster: &str) -> Value {
    let route = json!({ "match": { "path": path }, "route": { "cluster": cluster } });
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

/// Binds connections to the application to `127.0.0.6` and `::6`. From there a connection to the
/// pod's own address is not captured again.
fn from_passthrough_address(mut cluster: Value) -> Value {
    cluster["upstream_bind_config"] = json!({
        "source_address": { "address": "127.0.0.6", "port_value": 0 },
        "extra_source_addresses": [{ "address": { "address": "::6", "port_value": 0 } }],
    });
    cluster
}

fn on_loopback(name: &str, port: u16) -> Value {
    let endpoint = json!({ "endpoint": { "address": socket_address("127.0.0.1", port) } });
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{ "lb_endpoints": [endpoint] }],
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
const TPROXY_MARK: u32 = 1337;
