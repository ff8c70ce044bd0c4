//! The overlay `grpc-simple`: proxyless gRPC applications that connect to the control plane without
//! an agent. An init container writes their gRPC xDS bootstrap file.

use serde_json::{Value, json};

use super::context::Context;
use crate::settings::annotations::key;

/// Returns the overlay for one pod.
pub fn overlay(context: &Context<'_>) -> Value {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mounts = json!([{"name": VOLUME, "mountPath": "/var/lib/grpc/data/"}]);
    let init = json!({
        "name": "grpc-bootstrap-init",
        "image": "busybox:1.28",
        "volumeMounts": mounts,
        "env": [
            field("INSTANCE_IP", "status.podIP"),
            field("POD_NAME", "metadata.name"),
            field("POD_NAMESPACE", "metadata.namespace"),
            // Istio's template has this line break too.
            {"name": "ISTIO_NAMESPACE", "value": format!("{}\n", &*context.values().global.istio_namespace)},
        ],
        "command": ["sh", "-c", SCRIPT],
    });
    let containers = context.pod["spec"]["containers"].as_array().into_iter().flatten();
    let containers = containers.map(|container| {
        json!({
            "name": container["name"],
            "env": [
                {"name": "GRPC_XDS_BOOTSTRAP", "value": "/var/lib/grpc/data/bootstrap.json"},
                {"name": "GRPC_GO_LOG_VERBOSITY_LEVEL", "value": "99"},
                {"name": "GRPC_GO_LOG_SEVERITY_LEVEL", "value": "info"},
            ],
            "volumeMounts": mounts,
        })
    });
    json!({
        "metadata": {"annotations": {key::REWRITE_APP_PROBES: "false"}},
        "spec": {
            "initContainers": [init],
            "containers": containers.collect::<Vec<_>>(),
            "volumes": [{"name": VOLUME, "emptyDir": {}}],
        },
    })
}

const VOLUME: &str = "grpc-io-proxyless-bootstrap";

const SCRIPT: &str = r#"NODE_ID="sidecar~${INSTANCE_IP}~${POD_NAME}.${POD_NAMESPACE}~cluster.local"
SERVER_URI="dns:///istiod.${ISTIO_NAMESPACE}.svc:15010"
echo '
{
  "xds_servers": [
    {
      "server_uri": "'${SERVER_URI}'",
      "channel_creds": [{"type": "insecure"}],
      "server_features" : ["xds_v3"]
    }
  ],
  "node": {
    "id": "'${NODE_ID}'",
    "metadata": {
      "GENERATOR": "grpc"
    }
  }
}' > /var/lib/grpc/data/bootstrap.json"#;
