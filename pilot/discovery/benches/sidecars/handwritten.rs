//! Envoys with static configuration for this path alone: the filters of generated configuration,
//! and as few statistics.

use std::net::{Ipv4Addr, SocketAddr};

use e2e::envoy;
use e2e::netns::Namespace;
use e2e::process::Process;
use e2e::run_folder::RunFolder;
use serde_json::{Value, json};

use crate::certificates::{CertificateFiles, Certificates};
use crate::pair::{self, Hosts, Pair};

pub(crate) fn start(folder: &RunFolder, hosts: &Hosts, certificates: &Certificates) -> Pair {
    let files = |name: &str, identity: &str| {
        certificates.write(&folder.folder(&format!("handwritten/{name}")).unwrap(), identity)
    };
    let client = client(&files("client", pair::CLIENT_IDENTITY));
    let server = server(&files("server", pair::SERVER_IDENTITY));
    let sidecars = vec![
        start_envoy(folder, &hosts.client, "client", &client),
        start_envoy(folder, &hosts.server, "server", &server),
    ];
    Pair { listener: CLIENT_LISTENER, admin: ADMIN_PORT, sidecars, _servers: Vec::new() }
}

fn start_envoy(
    folder: &RunFolder,
    namespace: &Namespace,
    name: &str,
    resources: &Value,
) -> Process {
    let bootstrap = json!({
        "admin": {"address": socket(SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT)))},
        "stats_config": {"stats_matcher": {"inclusion_list": {"patterns": [{"prefix": "server"}]}}},
        "static_resources": resources,
    });
    let file = folder.write(&format!("handwritten/{name}.json"), bootstrap.to_string()).unwrap();
    let name = format!("envoy-{name}");
    pair::start_in(namespace, folder, &name, &envoy::command(&file).unwrap())
}

fn client(files: &CertificateFiles) -> Value {
    let tls = json!({
        "@type": type_url("transport_sockets.tls.v3.UpstreamTlsContext"),
        "common_tls_context": tls(files, &json!({"exact": pair::SERVER_IDENTITY})),
        "sni": "web.shop",
    });
    let mut cluster = cluster(SocketAddr::from((pair::SERVER, pair::HANDWRITTEN_PORT)));
    cluster["transport_socket"] = socket_of_tls(&tls);
    let fault = filter("http.fault", "http.fault.v3.HTTPFault");
    json!({
        "listeners": [{
            "name": "outbound",
            "address": socket(CLIENT_LISTENER),
            "filter_chains": [{"filters": [connection_manager(&json!({}), Some(fault))]}],
        }],
        "clusters": [cluster],
    })
}

fn server(files: &CertificateFiles) -> Value {
    let tls = json!({
        "@type": type_url("transport_sockets.tls.v3.DownstreamTlsContext"),
        "common_tls_context": tls(files, &json!({"prefix": "spiffe://cluster.local/"})),
        "require_client_certificate": true,
    });
    let details = json!({
        "server_name": "istio-envoy",
        "forward_client_cert_details": "APPEND_FORWARD",
        "set_current_client_cert_details": {"subject": true, "dns": true, "uri": true},
    });
    json!({
        "listeners": [{
            "name": "inbound",
            "address": socket(SocketAddr::from((Ipv4Addr::UNSPECIFIED, pair::HANDWRITTEN_INBOUND))),
            "listener_filters": [
                filter("listener.original_dst", "listener.original_dst.v3.OriginalDst"),
                filter("listener.tls_inspector", "listener.tls_inspector.v3.TlsInspector"),
            ],
            "filter_chains": [{
                "transport_socket": socket_of_tls(&tls),
                "filters": [connection_manager(&details, None)],
            }],
        }],
        "clusters": [cluster(pair::APPLICATION)],
    })
}

/// Routes all requests to the only cluster.
fn connection_manager(details: &Value, fault: Option<Value>) -> Value {
    let mut stats = filter("http.grpc_stats", "http.grpc_stats.v3.FilterConfig");
    stats["typed_config"]["emit_filter_state"] = true.into();
    stats["typed_config"]["stats_for_all_methods"] = false.into();
    let cors = filter("http.cors", "http.cors.v3.Cors");
    let router = filter("http.router", "http.router.v3.Router");
    let filters = [stats].into_iter().chain(fault).chain([cors, router]);
    let mut manager = json!({
        "@type": type_url("filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "requests",
        "stream_idle_timeout": "0s",
        "normalize_path": true,
        "proxy_100_continue": true,
        "http_filters": filters.collect::<Value>(),
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
            {"match": {"prefix": "/"}, "route": {"cluster": CLUSTER, "timeout": "0s"}},
        ]}]},
    });
    for (key, value) in details.as_object().into_iter().flatten() {
        manager[key] = value.clone();
    }
    json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": manager})
}

fn cluster(endpoint: SocketAddr) -> Value {
    json!({
        "name": CLUSTER, "type": "STATIC",
        "load_assignment": {"cluster_name": CLUSTER, "endpoints": [
            {"lb_endpoints": [{"endpoint": {"address": socket(endpoint)}}]},
        ]},
    })
}

fn tls(files: &CertificateFiles, peer: &Value) -> Value {
    json!({
        "tls_params": {
            "tls_minimum_protocol_version": "TLSv1_2",
            "tls_maximum_protocol_version": "TLSv1_3",
        },
        "alpn_protocols": ["http/1.1"],
        "tls_certificates": [{
            "certificate_chain": {"filename": files.chain},
            "private_key": {"filename": files.key},
        }],
        "validation_context": {
            "trusted_ca": {"filename": files.roots},
            "match_typed_subject_alt_names": [{"san_type": "URI", "matcher": peer}],
        },
    })
}

fn socket_of_tls(context: &Value) -> Value {
    json!({"name": "envoy.transport_sockets.tls", "typed_config": context})
}

fn filter(name: &str, message: &str) -> Value {
    let name = format!("envoy.filters.{name}");
    json!({"name": name, "typed_config": {"@type": type_url(&format!("filters.{message}"))}})
}

fn type_url(message: &str) -> String {
    format!("type.googleapis.com/envoy.extensions.{message}")
}

fn socket(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip(), "port_value": address.port()}})
}

const CLUSTER: &str = "next";
const CLIENT_LISTENER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8001);
const ADMIN_PORT: u16 = 15900;
