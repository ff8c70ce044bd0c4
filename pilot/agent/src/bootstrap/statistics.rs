//! Statistics: tags, matcher, histograms and sinks.

use serde_json::{Value, json};

use super::METRICS_CLUSTER;
use super::address::socket;
use crate::config::{BootstrapOptions, DrainOptions, StatisticsOptions};

/// Returns tags, matcher and histogram buckets.
pub(super) fn config(options: &BootstrapOptions, drain: &DrainOptions) -> Value {
    let statistics = &options.statistics;
    let mut config = json!({
        "use_all_default_tags": false,
        "stats_tags": tags(statistics),
        "stats_matcher": { "inclusion_list": { "patterns": patterns(statistics, drain) } },
    });
    if !statistics.buckets.is_empty() {
        let settings = statistics
            .buckets
            .iter()
            .map(|(prefix, bounds)| json!({ "match": { "prefix": prefix }, "buckets": bounds }));
        config["histogram_bucket_settings"] = settings.collect();
    }
    config
}

/// Returns the sinks of statistics.
pub(super) fn sinks(options: &BootstrapOptions) -> Vec<Value> {
    let mut sinks = Vec::new();
    if options.metrics_service.is_some() {
        sinks.push(json!({
            "name": "envoy.stat_sinks.metrics_service",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.config.metrics.v3.MetricsServiceConfig",
                "transport_api_version": "V3",
                "grpc_service": { "envoy_grpc": { "cluster_name": METRICS_CLUSTER } },
            },
        }));
    }
    if let Some(statsd) = &options.statistics.statsd {
        let mut address = socket(&statsd.host, statsd.port);
        address["socket_address"]["protocol"] = "UDP".into();
        sinks.push(json!({
            "name": "envoy.stat_sinks.statsd",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.config.metrics.v3.StatsdSink",
                "address": address,
            },
        }));
    }
    sinks
}

/// Returns the tags: Envoy's with Istio's names, then the additional ones, whose values stand in a
/// statistic's name as `TAG=.=VALUE;.;`.
fn tags(statistics: &StatisticsOptions) -> Vec<Value> {
    let fixed = TAGS.iter().map(|(name, regex)| json!({ "tag_name": name, "regex": regex }));
    let extra = statistics.extra_tags.iter().map(|tag| {
        // Tags consist of letters, digits, `_`, `-` and `.`.
        let name = tag.replace('.', "\\.");
        json!({ "tag_name": tag, "regex": format!(r"({name}=\.=(.*?);\.;)") })
    });
    fixed.chain(extra).collect()
}

/// Returns the patterns of kept statistics. All others would take memory for each cluster.
fn patterns(statistics: &StatisticsOptions, drain: &DrainOptions) -> Vec<Value> {
    let texts = |fixed: &[&str], more: &[String]| -> Vec<String> {
        fixed.iter().map(|text| (*text).to_owned()).chain(more.iter().cloned()).collect()
    };
    let mut suffixes = texts(SUFFIXES, &statistics.suffixes);
    if drain.waits_for_connections() {
        suffixes.push("downstream_cx_active".to_owned());
    }
    let prefixes = texts(PREFIXES, &statistics.prefixes);
    let regexps = texts(REGEXPS, &statistics.regexps);
    let prefixes = prefixes.into_iter().map(|text| json!({ "prefix": text }));
    let suffixes = suffixes.into_iter().map(|text| json!({ "suffix": text }));
    let regexps = regexps.into_iter().map(|text| json!({ "safe_regex": { "regex": text } }));
    prefixes.chain(suffixes).chain(regexps).collect()
}

/// Tags and the regular expressions that find them. The first group is removed from the name, the
/// second is the value.
const TAGS: &[(&str, &str)] = &[
    ("cluster_name", r"^cluster\.(([^.;]+(?:\.[^.;]+)*?\.svc\.[a-z0-9-]+\.[a-z0-9-]+|[^.]+)[.;]+)"),
    (
        "http_conn_manager_prefix",
        concat!(
            r"^http\.((.+?)\.)(?:downstream_|no_route|no_cluster|rq_|rs_|tracing|user_agent",
            r"|passthrough_|[0-9a-z_]+$)"
        ),
    ),
    (
        "listener_address",
        r"^listener\.((\[[0-9a-fA-F_:.]+\]_\d+|[0-9_.]+_\d+|\[?[0-9a-fA-F_:]+\]?_\d+)\.)",
    ),
    ("mongo_prefix", r"^mongo\.((.+?)\.)(?:collection|cmd|cx_|op_|delays_|decoding_)"),
    ("response_code", r"_rq(_(\d{3}))$"),
    ("response_code_class", r"_rq(_(\dxx))$"),
    ("tcp_prefix", r"^tcp\.((.+?)\.)\w+$"),
];
const PREFIXES: &[&str] =
    &["cluster_manager", "listener_manager", "server", "cluster.xds-grpc", "wasm"];
const SUFFIXES: &[&str] = &["rbac.allowed", "rbac.denied", "shadow_allowed", "shadow_denied"];
const REGEXPS: &[&str] = &[r"vhost\..*\.route\..*"];
