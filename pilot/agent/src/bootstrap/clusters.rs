//! Static clusters.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::address::{Families, pipe, socket};
use super::{
    ACCESS_LOG_CLUSTER, ADMIN_CLUSTER, AGENT_CLUSTER, DATADOG_CLUSTER, LOCAL_CLUSTER,
    METRICS_CLUSTER, SDS_CLUSTER, XDS_CLUSTER, ZIPKIN_CLUSTER, seconds, tls,
};
use crate::config::{Config, EnvoyOptions, Keepalive, RemoteService, Tracer};
use crate::node::Node;

/// Returns the clusters.
pub(super) fn clusters(
    config: &Config,
    envoy: &EnvoyOptions,
    node: &Node,
    families: Families,
) -> Vec<Value> {
    let options = &config.bootstrap;
    let timeout = options.connect_timeout;
    let loopback = families.loopback();
    let mut clusters = vec![
        fixed(ADMIN_CLUSTER, timeout, &socket(&loopback, envoy.admin_port)),
        unix(XDS_CLUSTER, timeout, &config.paths.configuration.join("XDS"), Http2::KeptAlive),
        unix(
            SDS_CLUSTER,
            timeout,
            &config.paths.workload_socket_folder.join(&config.certificates.socket_file),
            Http2::Plain,
        ),
    ];
    if let Some(status) = &config.status {
        clusters.push(fixed(AGENT_CLUSTER, timeout, &socket(&loopback, status.port)));
    }
    if is_zone_aware(node) {
        clusters.push(local_cluster(timeout));
    }
    let mut remote = |name: &str, service: &RemoteService, http2: bool| {
        clusters.push(remote_cluster(name, timeout, service, families, http2));
    };
    match &options.tracer {
        Some(Tracer::Zipkin(service)) => remote(ZIPKIN_CLUSTER, service, false),
        Some(Tracer::Datadog(service)) => remote(DATADOG_CLUSTER, service, false),
        None => {}
    }
    if let Some(service) = &options.access_log_service {
        remote(ACCESS_LOG_CLUSTER, service, true);
    }
    if let Some(service) = &options.metrics_service {
        remote(METRICS_CLUSTER, service, true);
    }
    clusters
}

/// Returns the settings of the cluster manager; `None` if all have their defaults.
pub(super) fn manager(config: &Config, node: &Node) -> Option<Value> {
    let mut manager = Map::new();
    if is_zone_aware(node) {
        manager.insert("local_cluster_name".to_owned(), LOCAL_CLUSTER.into());
    }
    if let Some(path) = &config.bootstrap.outlier_log_path {
        manager.insert("outlier_detection".to_owned(), json!({ "event_log_path": path }));
    }
    (!manager.is_empty()).then_some(Value::Object(manager))
}

/// HTTP/2 to a Unix socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Http2 {
    Plain,
    /// With pings, so that a stream that hangs is noticed.
    KeptAlive,
}

/// True if Envoy can weigh its own zone against others.
fn is_zone_aware(node: &Node) -> bool {
    !node.locality.zone.is_empty()
}

/// Returns the cluster of this service's own endpoints. Without an answer Envoy starts after the
/// timeout, and routes without regard to zones.
fn local_cluster(timeout: Duration) -> Value {
    json!({
        "name": LOCAL_CLUSTER,
        "type": "EDS",
        "connect_timeout": seconds(timeout),
        "eds_cluster_config": { "eds_config": {
            "ads": {}, "initial_fetch_timeout": "1s", "resource_api_version": "V3",
        } },
    })
}

fn fixed(name: &str, timeout: Duration, address: &Value) -> Value {
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": seconds(timeout),
        "load_assignment": assignment(name, address),
    })
}

fn unix(name: &str, timeout: Duration, path: &Path, protocol: Http2) -> Value {
    let mut options = json!({});
    if protocol == Http2::KeptAlive {
        options["connection_keepalive"] = json!({ "interval": "30s", "timeout": "10s" });
    }
    let mut cluster = fixed(name, timeout, &pipe(path));
    cluster["typed_extension_protocol_options"] = http2(&options);
    cluster
}

fn remote_cluster(
    name: &str,
    timeout: Duration,
    service: &RemoteService,
    families: Families,
    is_http2: bool,
) -> Value {
    let address = &service.address;
    let mut cluster = fixed(name, timeout, &socket(&address.host, address.port));
    if address.host.parse::<IpAddr>().is_err() {
        cluster["type"] = "STRICT_DNS".into();
        cluster["dns_lookup_family"] = families.dns_lookup().into();
    }
    if is_http2 {
        cluster["typed_extension_protocol_options"] = http2(&json!({}));
    }
    if let Some(tls) = &service.tls {
        cluster["transport_socket"] = tls::transport_socket(tls, address, is_http2);
    }
    if let Some(keepalive) = service.keepalive {
        cluster["upstream_connection_options"] = json!({ "tcp_keepalive": tcp(keepalive) });
    }
    cluster
}

fn tcp(keepalive: Keepalive) -> Value {
    let fields = [
        ("keepalive_probes", keepalive.probes),
        ("keepalive_time", keepalive.time),
        ("keepalive_interval", keepalive.interval),
    ];
    let set = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.into())));
    Value::Object(set.collect())
}

fn assignment(name: &str, address: &Value) -> Value {
    let endpoint = json!({ "endpoint": { "address": address } });
    json!({ "cluster_name": name, "endpoints": [{ "lb_endpoints": [endpoint] }] })
}

fn http2(options: &Value) -> Value {
    json!({ "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": super::type_url("upstreams.http.v3.HttpProtocolOptions"),
        "explicit_http_config": { "http2_protocol_options": options },
    } })
}
