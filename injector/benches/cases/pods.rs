//! Pods of the benchmarks.

use serde_json::{Map, Value, json};

/// Returns a pod with one container.
pub(crate) fn small() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(),
        "spec": {
            "containers": [{
                "name": "app",
                "image": "registry.example/shop/cart:1.4.2",
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            }],
            "serviceAccountName": "cart",
        },
    })
}

/// Returns a pod with one container and `count` environment variables.
pub(crate) fn with_variables(count: usize) -> Value {
    let mut pod = small();
    pod["spec"]["containers"][0]["env"] = variables(count);
    pod
}

/// Returns a pod of a Deployment as the API server sends it: three containers, nine probes, thirty
/// environment variables.
pub(crate) fn typical() -> Value {
    let containers: Vec<_> = ["cart", "worker", "metrics"]
        .into_iter()
        .zip(0..)
        .map(|(name, number)| container(name, 8080 + number))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(),
        "spec": {
            "containers": containers,
            "volumes": [
                {"name": "config", "configMap": {"name": "cart", "defaultMode": 420}},
                {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}},
                {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                ]}},
            ],
            "serviceAccountName": "cart",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "securityContext": {"runAsNonRoot": true},
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                    "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists",
                    "effect": "NoExecute", "tolerationSeconds": 300},
            ],
        },
    })
}

/// Returns a Deployment of the typical pod with the number in its name.
pub(crate) fn deployment(number: usize) -> Value {
    let mut template = typical();
    let pod = template.as_object_mut().map(std::mem::take).unwrap_or_default();
    let mut template: Map<_, _> =
        pod.into_iter().filter(|(key, _)| key == "metadata" || key == "spec").collect();
    template["metadata"] = json!({"labels": {"app": "cart", "version": "v1"},
        "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"}});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": format!("cart-{number}"), "namespace": "shop"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "cart"}}, "template": template},
    })
}

fn metadata() -> Value {
    json!({
        "generateName": "cart-5d8c7b9f6d-",
        "namespace": "shop",
        "labels": {"app": "cart", "version": "v1", "pod-template-hash": "5d8c7b9f6d"},
        "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
        "creationTimestamp": null,
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true,
            "name": "cart-5d8c7b9f6d", "uid": "5a6b2f64-12f7-4a2e-9f51-6d2c0be0f7a1",
            "blockOwnerDeletion": true}],
    })
}

fn container(name: &str, port: u16) -> Value {
    json!({
        "name": name,
        "image": format!("registry.example/shop/{name}:1.4.2"),
        "imagePullPolicy": "IfNotPresent",
        "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
        "env": variables(10),
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "1", "memory": "512Mi"}},
        "livenessProbe": {"httpGet": {"path": "/live", "port": port}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
        "startupProbe": {"tcpSocket": {"port": port}, "failureThreshold": 30},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/cart", "readOnly": true},
            {"name": "cache", "mountPath": "/var/cache/cart"},
            {"name": "kube-api-access-x7k2p", "readOnly": true,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    })
}

fn variables(count: usize) -> Value {
    let variable =
        |number| json!({"name": format!("VARIABLE_{number}"), "value": format!("value-{number}")});
    (0..count).map(variable).collect()
}
