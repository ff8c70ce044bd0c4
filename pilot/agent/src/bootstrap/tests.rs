//! Goldens and properties of the bootstrap.

use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::config::tests::{Case, resolved};

fn generate(case: &Case<'_>) -> (Config, Value) {
    let config = resolved(case).config;
    let value = bootstrap(&config, config.envoy.as_ref().unwrap(), &Node::new(&config));
    (config, value)
}

#[test]
fn bootstrap_of_a_sidecar() {
    let (config, bootstrap) = generate(&Case { flags: "--concurrency 2", ..Case::default() });
    insta::assert_json_snapshot!(bootstrap);
    let envoy = config.envoy.as_ref().unwrap();
    let arguments = command_line::arguments(&config, envoy);
    insta::assert_snapshot!("arguments_of_a_sidecar", arguments.join(" "));
}

/// The parts that differ from a plain sidecar's.
#[test]
fn bootstrap_of_a_gateway_with_all_services() {
    let layer = r#"{
        "tracing": {"zipkin": {"address": "zipkin.tracing:9411"}},
        "envoyAccessLogService": {"address": "10.1.1.1:1", "tlsSettings": {"mode": "ISTIO_MUTUAL"}},
        "envoyMetricsService": {"address": "metrics:2", "tcpKeepalive": {"time": "10s"},
            "tlsSettings": {"mode": "SIMPLE", "subjectAltNames": ["metrics", "spiffe://a/b"]}},
        "statsdUdpAddress": "10.1.1.2:8125",
        "runtimeValues": {"a": "true", "b": "7", "overload.global_downstream_max_connections": "9"},
        "statsCompression": false
    }"#;
    let (_, bootstrap) = generate(&Case {
        role: "router",
        flags: "--log_as_json --outlierLogPath /dev/stdout",
        environment: &[
            ("PROXY_CONFIG", layer),
            ("INSTANCE_IP", "fd00::1"),
            ("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "true"),
            ("ISTIO_DELTA_XDS", "false"),
        ],
        labels: "istio-locality=\"eu.eu-1\"\n",
        annotations: concat!(
            "sidecar.istio.io/statsInclusionPrefixes=\"listener.{pod_ip}_80,http.in\"\n",
            "sidecar.istio.io/statsHistogramBuckets=\"{\\\"cluster\\\":[1,5.5]}\"\n",
            "sidecar.istio.io/extraStatTags=\"destination.port\"\n",
            "sidecar.istio.io/statsEvictionInterval=\"1m\"\n",
        ),
        interfaces: &["10.0.0.1"],
        ..Case::default()
    });
    insta::assert_json_snapshot!(without_node(bootstrap));
}

#[test]
fn grpc_bootstrap_names_socket_and_certificates() {
    let environment = [("DISABLE_ENVOY", "true"), ("OUTPUT_CERTS", "/var/lib/istio/data")];
    let config = resolved(&Case { environment: &environment, ..Case::default() }).config;
    let value = grpc::bootstrap(&config, &Node::new(&config), Path::new("/"));
    insta::assert_json_snapshot!(without_node(value));
}

#[test]
fn families_follow_the_addresses() {
    for (addresses, families) in [
        (&["10.0.0.1"][..], Families::Ipv4),
        (&["fd00::1"], Families::Ipv6),
        (&["10.0.0.1", "fd00::1"], Families::Ipv4First),
        (&["fd00::1", "10.0.0.1", "fd00::2"], Families::Ipv6First),
        (&[], Families::Ipv4),
    ] {
        let parsed: Vec<_> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        assert_eq!(Families::new(&parsed), families, "{addresses:?}");
    }
}

/// The node has a golden of its own.
fn without_node(mut bootstrap: Value) -> Value {
    bootstrap["node"] = "...".into();
    bootstrap
}

/// Replaces each text by an empty one, so that the structure alone is compared.
fn structure(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            members.iter().map(|(key, value)| (key.clone(), structure(value))).collect()
        }
        Value::Array(items) => items.iter().map(structure).collect(),
        Value::String(_) => "".into(),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The text reaches Envoy unchanged in its field, and changes nothing else.
    #[test]
    fn annotation_text_stays_in_its_field(
        text in "[^,{}\\p{White_Space}]{1,40}|\"\\}\\],[^,{}\\s]{0,9}"
    ) {
        let annotations = |text: &str| {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            format!(
                "sidecar.istio.io/statsInclusionPrefixes=\"{quoted}\"\n\
                 sidecar.istio.io/interceptionMode=\"{quoted}\"\n"
            )
        };
        let text = text.trim().replace(',', "x").replace(char::is_control, "");
        prop_assume!(!text.is_empty());
        let (annotated, plain) = (annotations(&text), annotations("plain"));
        let (_, with_text) = generate(&Case { annotations: &annotated, ..Case::default() });
        let (_, with_plain) = generate(&Case { annotations: &plain, ..Case::default() });
        let parsed: Value = serde_json::from_str(&with_text.to_string()).unwrap();
        prop_assert_eq!(structure(&parsed), structure(&with_plain));
        let inclusion_list = &parsed["stats_config"]["stats_matcher"]["inclusion_list"];
        prop_assert_eq!(&inclusion_list["patterns"][5]["prefix"], &Value::from(text));
    }

    /// A whole layer of arbitrary text is an error or a value, and no panic.
    #[test]
    fn arbitrary_layer_never_panics(text in "\\PC{0,60}") {
        let environment = [("PROXY_CONFIG", text.as_str())];
        let case = Case { environment: &environment, ..Case::default() };
        let _ = crate::config::resolve(&case.inputs());
    }
}
