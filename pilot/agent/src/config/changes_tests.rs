//! Effects of changes at run time, for every field of `ProxyConfig` and every annotation.

use std::collections::BTreeMap;

use mesh::proxy_config::ProxyConfig;
use serde_json::{Value, json};

use super::*;
use crate::bootstrap::{bootstrap, command_line};
use crate::channel::ChannelOptions;
use crate::config::annotations::ANNOTATIONS;
use crate::config::tests::{Case, resolved};
use crate::environment::Environment;
use crate::node::Node;
use crate::status::ScrapeTarget;

/// Effect of a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Effect {
    /// The change is refused, and this setting is named.
    NewContainer(&'static str),
    /// A part of the agent applies it.
    Agent,
    /// Envoy's bootstrap or command line differs.
    Envoy,
    /// Metadata of the node differs, which the control plane reads.
    ControlPlane,
    /// A warning says that it has no effect.
    Warning,
}
use Effect::{Agent, ControlPlane, Envoy, NewContainer, Warning};

const LABELS: &str = "app=\"web\"\n";

fn config(annotations: &str, environment: &[(&str, &str)]) -> Config {
    let case = Case { annotations, environment, labels: LABELS, ..Case::default() };
    resolved(&case).config
}

fn annotation(key: &str, value: &str) -> String {
    format!("{key}={value:?}\n")
}

fn layer(layer: &Value) -> String {
    annotation("proxy.istio.io/config", &layer.to_string())
}

/// Returns the settings that a change is refused for.
fn refused(before: &str, after: &str, environment: &[(&str, &str)]) -> Vec<String> {
    let variables = environment.iter().map(|(name, value)| (name.into(), value.into()));
    let (before, after) = (config(before, environment), config(after, environment));
    needing_new_container(&before, &after, &Environment::new(variables))
}

/// Returns the effect of changed files on an agent that started with empty ones.
fn effect(files: &Case<'_>) -> Option<Effect> {
    let case = Case { labels: LABELS, ..*files };
    let (before, after) = (config("", &[]), resolved(&case).config);
    let refused = needing_new_container(&before, &after, &Environment::default());
    if let [name, ..] = &*refused {
        return Some(NewContainer(String::leak(name.clone())));
    }
    if !without_effect(&before, &after).is_empty() {
        return Some(Warning);
    }
    let of_agent = |config: &Config| {
        let Config { certificates, pod, paths, drain, status, .. } = config;
        (
            ChannelOptions::of_discovery(config),
            ChannelOptions::of_certificates(certificates, pod, paths),
            drain.clone(),
            status.as_ref().map(|status| ScrapeTarget::parse_all(status).unwrap()),
        )
    };
    if of_agent(&before) != of_agent(&after) {
        return Some(Agent);
    }
    let of_envoy = |config: &Config| {
        let envoy = config.envoy.as_ref().unwrap();
        let bootstrap = bootstrap(config, envoy, &Node::new(config));
        (bootstrap, command_line::arguments(config, envoy), envoy.parent_shutdown_time)
    };
    let (mut before, mut after) = (of_envoy(&before), of_envoy(&after));
    let take = |bootstrap: &mut Value| bootstrap["node"]["metadata"]["PROXY_CONFIG"].take();
    let differs = take(&mut before.0) != take(&mut after.0);
    if before != after {
        return Some(Envoy);
    }
    differs.then_some(ControlPlane)
}

#[test]
fn every_field_has_an_effect_or_a_message() {
    let service = json!({"address": "server.monitoring:9000"});
    let cases: BTreeMap<&str, (Value, Effect)> = BTreeMap::from([
        ("configPath", (json!("/other"), NewContainer("configPath"))),
        ("binaryPath", (json!("/envoy"), NewContainer("binaryPath"))),
        ("serviceCluster", (json!("mine"), Envoy)),
        ("drainDuration", (json!("50s"), Envoy)),
        ("discoveryAddress", (json!("other:15012"), Agent)),
        ("discoveryRefreshDelay", (json!("5s"), Warning)),
        ("zipkinAddress", (json!("zipkin:9411"), Envoy)),
        ("statsdUdpAddress", (json!("10.0.0.9:8125"), Envoy)),
        ("proxyAdminPort", (json!(15100), NewContainer("proxyAdminPort"))),
        ("availabilityZone", (json!("north"), Envoy)),
        ("controlPlaneAuthPolicy", (json!("NONE"), Agent)),
        ("customConfigFile", (json!("/custom"), Warning)),
        ("statNameLength", (json!(100), Warning)),
        ("concurrency", (json!(3), Envoy)),
        ("proxyBootstrapTemplatePath", (json!("/template"), Warning)),
        ("interceptionMode", (json!("TPROXY"), Warning)),
        ("tracing", (json!({"zipkin": {"address": "zipkin:9411"}}), Envoy)),
        ("envoyMetricsServiceAddress", (json!("metrics:15000"), Envoy)),
        ("sds", (json!({"enabled": true}), Warning)),
        ("envoyAccessLogService", (service.clone(), Envoy)),
        ("envoyMetricsService", (service, Envoy)),
        ("proxyMetadata", (json!({"ISTIO_META_NETWORK": "north"}), Envoy)),
        ("statusPort", (json!(15120), NewContainer("statusPort"))),
        ("extraStatTags", (json!(["tag"]), Envoy)),
        ("gatewayTopology", (json!({"numTrustedProxies": 1}), ControlPlane)),
        ("terminationDrainDuration", (json!("30s"), Agent)),
        ("meshId", (json!("mesh"), ControlPlane)),
        ("readinessProbe", (json!({"periodSeconds": 5}), Warning)),
        ("proxyStatsMatcher", (json!({"inclusionPrefixes": ["p"]}), Envoy)),
        ("holdApplicationUntilProxyStarts", (json!(true), Warning)),
        ("caCertificatesPem", (json!(["pem"]), ControlPlane)),
        ("tracingServiceName", (json!("CANONICAL_NAME_ONLY"), Envoy)),
        ("image", (json!({"imageType": "debug"}), Warning)),
        ("privateKeyProvider", (json!({"qat": {"pollDelay": "1s"}}), ControlPlane)),
        ("runtimeValues", (json!({"key": "1"}), Envoy)),
        ("proxyHeaders", (json!({"server": {"disabled": true}}), ControlPlane)),
        ("fileFlushInterval", (json!("2s"), Envoy)),
        ("fileFlushMinSizeKb", (json!(10), Envoy)),
        ("statsCompression", (json!(false), Envoy)),
        ("connectionSettings", (json!({"globalDownstreamConnectionLimit": 5}), Envoy)),
    ]);
    let mut fields: Vec<_> = ProxyConfig::field_names().collect();
    fields.sort_unstable();
    assert_eq!(fields, cases.keys().copied().collect::<Vec<_>>());
    for (field, (value, expected)) in cases {
        // A zero in an annotation would not count.
        let mesh = json!({ "defaultConfig": { field: value } }).to_string();
        let files = Case { mesh: Some(&mesh), ..Case::default() };
        assert_eq!(effect(&files), Some(expected), "{field}");
    }
}

#[test]
fn every_annotation_has_an_effect_or_a_message() {
    let cases = [
        ("proxy.istio.io/config", "concurrency: 3", Envoy),
        ("sidecar.istio.io/discoveryAddress", "other:15012", Agent),
        ("status.sidecar.istio.io/port", "15120", NewContainer("statusPort")),
        ("prometheus.istio.io/scrape-targets", "9090:/metrics", Agent),
        ("sidecar.istio.io/statsInclusionPrefixes", "p", Envoy),
        ("sidecar.istio.io/statsInclusionSuffixes", "s", Envoy),
        ("sidecar.istio.io/statsInclusionRegexps", "r", Envoy),
        ("sidecar.istio.io/extraStatTags", "tag", Envoy),
        ("sidecar.istio.io/statsHistogramBuckets", r#"{"p": [1, 2]}"#, Envoy),
        ("sidecar.istio.io/statsFlushInterval", "7s", Envoy),
        ("sidecar.istio.io/statsEvictionInterval", "10s", Envoy),
        ("sidecar.istio.io/statsCompression", "false", Envoy),
    ];
    assert!(cases.iter().map(|(key, ..)| *key).eq(ANNOTATIONS.iter().map(|(key, _)| *key)));
    for (key, value, expected) in cases {
        let annotations = annotation(key, value);
        let files = Case { annotations: &annotations, ..Case::default() };
        assert_eq!(effect(&files), Some(expected), "{key}");
    }
}

#[test]
fn proxy_metadata_without_effect_needs_a_new_container() {
    let entry = |name: &str, value: &str| layer(&json!({"proxyMetadata": {name: value}}));
    let injected = [("ISTIO_META_DNS_CAPTURE", "false"), ("SECRET_TTL", "1h")];
    for (before, after, environment, expected) in [
        // Without a variable, the entry is metadata of the node.
        (entry("ISTIO_META_A", "1"), entry("ISTIO_META_A", "2"), &[][..], None),
        (
            entry("ISTIO_META_DNS_CAPTURE", "true"),
            String::new(),
            &[],
            Some("ISTIO_META_DNS_CAPTURE"),
        ),
        (entry("SECRET_TTL", "1h"), entry("SECRET_TTL", "2h"), &[], Some("SECRET_TTL")),
        // A variable precedes it.
        (
            String::new(),
            entry("ISTIO_META_DNS_CAPTURE", "true"),
            &injected,
            Some("ISTIO_META_DNS_CAPTURE"),
        ),
        (entry("SECRET_TTL", "1h"), String::new(), &injected, Some("SECRET_TTL")),
        // The variable has the wanted value.
        (entry("SECRET_TTL", "2h"), entry("SECRET_TTL", "1h"), &injected, None),
        (String::new(), entry("ISTIO_META_DNS_CAPTURE", "false"), &injected, None),
    ] {
        let expected: Vec<_> =
            expected.map(|name| format!("proxyMetadata.{name}")).into_iter().collect();
        assert_eq!(refused(&before, &after, environment), expected, "{before} {after}");
    }
}

#[test]
fn changed_trust_domain_needs_a_new_container() {
    let config = |mesh| resolved(&Case { mesh: Some(mesh), ..Case::default() }).config;
    let (before, after) = (config("{}"), config("trustDomain: north"));
    let names = needing_new_container(&before, &after, &Environment::default());
    assert_eq!(names, ["trustDomain"]);
}
