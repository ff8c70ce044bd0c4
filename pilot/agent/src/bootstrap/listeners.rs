//! Static listeners: metrics and readiness.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::address::{Families, socket};
use super::{ADMIN_CLUSTER, AGENT_CLUSTER, typed};
use crate::config::{Config, EnvoyOptions, Role};

/// Returns the listeners. Without a status port there is no readiness.
pub(super) fn listeners(config: &Config, envoy: &EnvoyOptions, families: Families) -> Vec<Value> {
    let statistics = Endpoint {
        name: "prometheus_stats",
        port: envoy.prometheus_port,
        path: "/stats/prometheus",
        cluster: ADMIN_CLUSTER,
        filters: if config.bootstrap.statistics.compression { compressors() } else { Vec::new() },
    };
    let readiness = Endpoint {
        name: "readiness",
        port: envoy.readiness_port,
        path: "/healthz/ready",
        cluster: AGENT_CLUSTER,
        filters: Vec::new(),
    };
    let endpoints = [Some(statistics), config.status.is_some().then_some(readiness)];
    let bypass = config.bootstrap.bypass_overload;
    let addresses = match config.role {
        Role::Sidecar => {
            let own = &config.pod.addresses;
            let loopbacks = families.loopbacks().into_iter().filter(|ip| !own.contains(ip));
            own.iter().copied().chain(loopbacks).collect()
        }
        // Nothing is captured beside it, and it may get addresses later.
        Role::Router => families.wildcards(),
    };
    endpoints.into_iter().flatten().map(|endpoint| endpoint.listener(&addresses, bypass)).collect()
}

/// Path of a port that is forwarded to a cluster.
struct Endpoint {
    name: &'static str,
    port: u16,
    path: &'static str,
    cluster: &'static str,
    filters: Vec<Value>,
}

impl Endpoint {
    /// Returns the listener. Envoy hands a captured connection to the listener of its destination:
    /// a sidecar's on all addresses would take those to the same port of any other host.
    fn listener(self, addresses: &[IpAddr], bypass_overload: bool) -> Value {
        let Self { name, port, path, cluster, mut filters } = self;
        filters.push(json!({
            "name": "envoy.filters.http.router",
            "typed_config": typed("filters.http.router.v3.Router"),
        }));
        let route = json!({ "match": { "path": path }, "route": { "cluster": cluster } });
        let manager = json!({
            "@type": super::type_url(
                "filters.network.http_connection_manager.v3.HttpConnectionManager"
            ),
            "stat_prefix": name,
            "http_filters": filters,
            "route_config": {
                "virtual_hosts": [{ "name": name, "domains": ["*"], "routes": [route] }],
            },
        });
        let mut addresses = addresses.iter().map(|ip| socket(ip, port));
        let mut listener = json!({
            "name": name,
            "address": addresses.next(),
            // An IPv6 address may still be tentative.
            "freebind": true,
            "bypass_overload_manager": bypass_overload,
            "filter_chains": [{ "filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": manager,
            }] }],
        });
        let others: Vec<_> = addresses.map(|address| json!({ "address": address })).collect();
        if !others.is_empty() {
            listener["additional_addresses"] = others.into();
        }
        listener
    }
}

/// Returns the compressors in the order of preference of clients that accept several.
fn compressors() -> Vec<Value> {
    let compressor = |name: &str, message: &str| {
        json!({
            "name": format!("envoy.filters.http.compressor.{name}"),
            "typed_config": {
                "@type": super::type_url("filters.http.compressor.v3.Compressor"),
                "compressor_library": {
                    "name": name,
                    "typed_config": typed(&format!("compression.{name}.compressor.v3.{message}")),
                },
            },
        })
    };
    [("gzip", "Gzip"), ("brotli", "Brotli"), ("zstd", "Zstd")]
        .map(|(name, message)| compressor(name, message))
        .into()
}
