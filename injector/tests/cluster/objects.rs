//! Objects of which the cluster's surroundings are made.

use serde_json::{Value, json};

/// A `ProxyConfig`.
pub(crate) fn resource(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1beta1",
        "kind": "ProxyConfig",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    })
}

/// The definition of `ProxyConfig`: Istio's name, and a schema that lets mistakes through.
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

/// The same with the version of its kubelet.
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

/// All of a node's information is required.
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
