//! Webhook configurations of istiod's injector, with only the fields that Istio's chart sets.

use serde_json::{Value, json};

/// Returns the configuration of the default revision; with `auto`, the one for
/// `enableNamespacesByDefault`.
pub fn of_default_revision(auto: bool) -> Value {
    let mut entries = of_label("default", ISTIOD);
    entries.extend(of_default(auto));
    configuration("istio-sidecar-injector", &json!({"istio.io/rev": "default"}), &entries)
}

/// Returns the configuration of another revision.
pub fn of_revision(revision: &str) -> Value {
    let entries = of_label(revision, &format!("istiod-{revision}"));
    let name = format!("istio-sidecar-injector-{revision}");
    configuration(&name, &json!({"istio.io/rev": revision}), &entries)
}

/// Returns the configuration of a tag of the default revision.
pub fn of_tag(tag: &str) -> Value {
    let mut entries = of_label(tag, ISTIOD);
    if tag == "default" {
        entries.extend(of_default(false));
    }
    let labels = json!({"istio.io/rev": "default", "istio.io/tag": tag});
    configuration(&format!("istio-revision-tag-{tag}"), &labels, &entries)
}

fn configuration(name: &str, labels: &Value, entries: &[Value]) -> Value {
    let mut labels = labels.clone();
    labels["app"] = json!("sidecar-injector");
    labels["release"] = json!(ISTIOD);
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name, "labels": labels},
        "webhooks": entries,
    })
}

/// Returns the webhooks of every revision and every tag.
fn of_label(value: &str, service: &str) -> Vec<Value> {
    let is = is(REVISION, value);
    vec![
        entry("rev.namespace", service, &json!([is, absent(INJECTION)]), &json!([not_false()])),
        entry(
            "rev.object",
            service,
            &json!([absent(REVISION), absent(INJECTION)]),
            &json!([not_false(), is]),
        ),
    ]
}

/// Returns the additional webhooks of the default revision.
fn of_default(auto: bool) -> Vec<Value> {
    let silent = [absent(INJECTION), absent(REVISION)];
    let mut entries = vec![
        entry("namespace", ISTIOD, &json!([is(INJECTION, "enabled")]), &json!([not_false()])),
        entry("object", ISTIOD, &json!(silent), &json!([is(INJECT, "true"), absent(REVISION)])),
    ];
    if auto {
        let system = ["kube-system", "kube-public", "kube-node-lease", "local-path-storage"];
        let not_system =
            json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": system});
        let namespace = json!([silent[0], silent[1], not_system]);
        let object = json!([absent(INJECT), absent(REVISION)]);
        entries.push(entry("auto", ISTIOD, &namespace, &object));
    }
    entries
}

fn entry(prefix: &str, service: &str, namespace: &Value, object: &Value) -> Value {
    json!({
        "name": format!("{prefix}.sidecar-injector.istio.io"),
        "clientConfig": {"service": {
            "name": service, "namespace": "istio-system", "path": "/inject", "port": 443,
        }},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                   "resources": ["pods"]}],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchExpressions": namespace},
        "objectSelector": {"matchExpressions": object},
    })
}

fn absent(key: &str) -> Value {
    json!({"key": key, "operator": "DoesNotExist"})
}

fn is(key: &str, value: &str) -> Value {
    json!({"key": key, "operator": "In", "values": [value]})
}

fn not_false() -> Value {
    json!({"key": INJECT, "operator": "NotIn", "values": ["false"]})
}

/// The Service of the default revision.
const ISTIOD: &str = "istiod";
const REVISION: &str = "istio.io/rev";
const INJECTION: &str = "istio-injection";
const INJECT: &str = "sidecar.istio.io/inject";
