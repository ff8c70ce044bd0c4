//! Objects that the injector reads from the cluster.

use serde_json::{Value, json};

/// Returns a `ProxyConfig` resource.
pub(crate) fn resource(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1beta1",
        "kind": "ProxyConfig",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    })
}

/// Returns the definition of `ProxyConfig`: Istio's name, and a schema that accepts invalid
/// resources.
pub(crate) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": RESOURCE},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "ProxyConfig", "plural": "proxyconfigs", "singular": "proxyconfig"},
            "versions": [{
                "name": "v1beta1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

pub(crate) fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

/// Returns a node with this kubelet version.
pub(crate) fn with_version(name: &str, version: &str) -> Value {
    let mut node = node(name);
    let mut info = serde_json::Map::new();
    for field in FIELDS {
        info.insert(field.to_owned(), json!(""));
    }
    info.insert("kubeletVersion".to_owned(), json!(version));
    node["status"] = json!({"nodeInfo": info});
    node
}

/// The required fields of a node's `nodeInfo`.
const FIELDS: [&str; 9] = [
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];

pub(crate) const GROUP: &str = "networking.istio.io";
pub(crate) const RESOURCE: &str = "proxyconfigs.networking.istio.io";
