//! Envoy's bootstrap as a typed value. Equal configurations give equal bytes.

mod address;
mod clusters;
pub mod command_line;
mod dynamic_resources;
pub mod grpc;
mod listeners;
mod log;
mod overload;
mod runtime;
mod statistics;
#[cfg(test)]
mod tests;
mod tls;
mod tracing;

use serde_json::{Value, json};

use address::Families;

use crate::config::{Config, EnvoyOptions};
use crate::node::Node;

/// Returns the bootstrap of Envoy.
pub fn bootstrap(config: &Config, envoy: &EnvoyOptions, node: &Node) -> Value {
    let options = &config.bootstrap;
    let families = Families::new(&config.pod.addresses);
    let mut bootstrap = json!({
        "node": node.to_json(),
        "admin": {
            "address": address::socket(&families.loopback(), envoy.admin_port),
            "ignore_global_conn_limit": true,
        },
        "application_log_config": log::format(options.json_log),
        "bootstrap_extensions": [{
            "name": "envoy.bootstrap.internal_listener",
            "typed_config": typed("bootstrap.internal_listener.v3.InternalListener"),
        }],
        "layered_runtime": runtime::layers(&options.runtime),
        "overload_manager": overload::manager(options.downstream_connections),
        "static_resources": {
            "clusters": clusters::clusters(config, envoy, node, families),
            "listeners": listeners::listeners(config, envoy, families),
        },
        "dynamic_resources": dynamic_resources::dynamic_resources(config.discovery.delta),
        "stats_config": statistics::config(options, &config.drain),
        "stats_flush_interval": seconds(options.statistics.flush_interval),
    });
    let mut put = |key: &str, value: Value| bootstrap[key] = value;
    if let Some(interval) = options.statistics.eviction_interval {
        put("stats_eviction_interval", seconds(interval));
    }
    let sinks = statistics::sinks(options);
    if !sinks.is_empty() {
        put("stats_sinks", sinks.into());
    }
    if let Some(tracer) = &options.tracer {
        put("tracing", tracing::tracing(tracer));
    }
    if let Some(manager) = clusters::manager(config, node) {
        put("cluster_manager", manager);
    }
    bootstrap
}

/// Returns a message of Envoy's extensions without fields.
fn typed(extension: &str) -> Value {
    json!({ "@type": type_url(extension) })
}

fn type_url(extension: &str) -> String {
    format!("type.googleapis.com/envoy.extensions.{extension}")
}

/// Returns a duration in protobuf's JSON.
fn seconds(duration: std::time::Duration) -> Value {
    match (duration.as_secs(), duration.subsec_nanos()) {
        (seconds, 0) => format!("{seconds}s").into(),
        (seconds, nanos) => format!("{seconds}.{nanos:09}s").into(),
    }
}

/// Cluster of the control plane: the agent's relay.
const XDS_CLUSTER: &str = "xds-grpc";
/// Cluster of certificates: the agent, or another program that owns the socket.
const SDS_CLUSTER: &str = "sds-grpc";
/// Cluster of Envoy's own admin interface, for metrics.
const ADMIN_CLUSTER: &str = "prometheus_stats";
/// Cluster of the agent's status port.
const AGENT_CLUSTER: &str = "agent";
/// Cluster of this service's own endpoints, for zone-aware routing.
const LOCAL_CLUSTER: &str = "local_cluster";
const ZIPKIN_CLUSTER: &str = "zipkin";
const DATADOG_CLUSTER: &str = "datadog_agent";
const ACCESS_LOG_CLUSTER: &str = "envoy_accesslog_service";
const METRICS_CLUSTER: &str = "envoy_metrics_service";
