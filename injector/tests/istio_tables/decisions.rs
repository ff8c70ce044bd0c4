//! The decision to inject a pod.

use injector::inject::InjectionOutcome;
use injector::inject::policy::Rules;
use serde_json::{Value, json};

use crate::fixture::Fixture;

const ON: &str = "policy: enabled";
const OFF: &str = "policy: disabled";

#[test]
fn policy_applies_unless_the_pod_decides() {
    let none = json!({});
    let by_annotation = |value: &str| json!({"annotations": {"sidecar.istio.io/inject": value}});
    let by_label = |value: &str| json!({"labels": {"sidecar.istio.io/inject": value}});
    let both = |label: &str, annotation: &str| {
        json!({
            "labels": {"sidecar.istio.io/inject": label},
            "annotations": {"sidecar.istio.io/inject": annotation},
        })
    };
    for (config, metadata, expected) in [
        (ON, none.clone(), true),
        (OFF, none.clone(), false),
        ("policy: ''", none.clone(), false),
        ("policy: wrong_policy", none.clone(), false),
        ("policy: wrong_policy", by_label("true"), false),
        (ON, json!({"annotations": {}}), true),
        (ON, by_annotation("true"), true),
        (ON, by_annotation("false"), false),
        (ON, by_annotation(""), true),
        (ON, by_annotation("True"), true),
        (ON, by_annotation("0"), true),
        (OFF, by_annotation("true"), true),
        (OFF, by_annotation("false"), false),
        (OFF, by_annotation(""), false),
        (OFF, by_annotation("y"), false),
        (ON, by_label("true"), true),
        (ON, by_label("false"), false),
        (OFF, by_label("true"), true),
        (OFF, by_label("false"), false),
        (OFF, by_label("on"), false),
        (ON, both("true", "false"), true),
        (ON, both("false", "true"), false),
        (OFF, both("true", "false"), true),
        (OFF, both("false", "true"), false),
        (OFF, both("", "true"), false),
        (ON, both("", "false"), true),
    ] {
        assert_eq!(decision(config, &metadata, false), expected, "{config}: {metadata}");
    }
}

#[test]
fn host_network_and_system_namespaces_are_never_injected() {
    for (namespace, expected) in [
        ("kube-system", false),
        ("kube-public", false),
        ("kube-node-lease", false),
        ("local-path-storage", false),
        ("istio-system", true),
        ("kube-systems", true),
    ] {
        let labels = json!({"sidecar.istio.io/inject": "true"});
        let metadata = json!({"namespace": namespace, "labels": labels});
        assert_eq!(decision(ON, &metadata, false), expected, "{namespace}");
    }
    for config in [ON, OFF] {
        let metadata = json!({"labels": {"sidecar.istio.io/inject": "true"}});
        assert!(!decision(config, &metadata, true), "{config}, host network");
    }
}

#[test]
fn selectors_apply_after_the_pod_and_before_the_policy() {
    let foo = json!({"labels": {"foo": "bar"}});
    let label = |value: &str| json!({"labels": {"foo": "bar", "sidecar.istio.io/inject": value}});
    let annotation = |value: &str| json!({"labels": {"foo": "bar"}, "annotations": {"sidecar.istio.io/inject": value}});
    let exists = "[{matchExpressions: [{key: foo, operator: Exists}]}]";
    let is_in = "[{matchExpressions: [{key: foo, operator: In, values: [x, bar]}]}]";
    let several = "[{matchLabels: {foo: other}}, {matchLabels: {foo: bar}}]";
    let invalid = "[{matchExpressions: [{key: foo, operator: Sounds}]}, {matchLabels: {foo: bar}}]";
    let both_keys =
        "[{matchExpressions: [{key: foo, operator: Exists}, {key: baz, operator: Exists}]}]";
    for (policy, never, always, metadata, expected) in [
        (ON, exists, "[]", foo.clone(), false),
        (ON, is_in, "[]", foo.clone(), false),
        (ON, several, "[]", foo.clone(), false),
        (ON, invalid, "[]", foo.clone(), false),
        (ON, both_keys, "[]", foo.clone(), true),
        (ON, "[{}]", "[]", foo.clone(), true),
        (ON, exists, "[]", json!({}), true),
        (ON, exists, "[]", label("true"), true),
        (ON, exists, "[]", annotation("true"), true),
        (ON, exists, "[]", annotation("yes"), false),
        (ON, exists, exists, foo.clone(), false),
        (OFF, "[]", exists, foo.clone(), true),
        (OFF, "[]", is_in, foo.clone(), true),
        (OFF, "[]", several, foo.clone(), true),
        (OFF, "[]", invalid, foo.clone(), true),
        (OFF, "[]", "[{}]", foo.clone(), false),
        (OFF, "[]", exists, json!({}), false),
        (OFF, "[]", exists, label("false"), false),
        (OFF, "[]", exists, annotation("false"), false),
        (OFF, "[]", exists, label(""), true),
        (OFF, exists, exists, foo, false),
    ] {
        let config =
            format!("{policy}\nneverInjectSelector: {never}\nalwaysInjectSelector: {always}");
        assert_eq!(decision(&config, &metadata, false), expected, "{config}: {metadata}");
    }
}

fn decision(config: &str, metadata: &Value, host_network: bool) -> bool {
    let mut pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "app"}]}});
    if host_network {
        pod["spec"]["hostNetwork"] = true.into();
    }
    let outcome = Fixture::default().run(config, &json!({}), &pod, Rules::Admission).unwrap();
    matches!(outcome, InjectionOutcome::Injected(_))
}
