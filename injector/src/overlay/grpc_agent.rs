//! The overlay `grpc-agent`: proxyless gRPC applications with an agent that provides xDS
//! configuration and certificates. No traffic is captured.

use serde_json::{Value, json};

use super::context::{Context, object};
use super::{metadata, proxy_container, volumes};

/// Returns the overlay for one pod.
pub fn overlay(context: &Context<'_>) -> Value {
    let mut spec = context.spec(volumes::of_grpc_agent(context));
    let mounts = volumes::mounts_of_grpc_application(context);
    let applications = context.application_containers().map(|name| {
        json!({
            "name": name,
            "env": [
                {"name": "GRPC_XDS_EXPERIMENTAL_SECURITY_SUPPORT", "value": "true"},
                {"name": "GRPC_XDS_BOOTSTRAP", "value": "/etc/istio/proxy/grpc-bootstrap.json"},
            ],
            "volumeMounts": mounts.clone(),
        })
    });
    let agent = proxy_container::of_grpc_agent(context);
    spec["containers"] = [agent].into_iter().chain(applications).collect();
    object([("metadata", metadata::of_grpc_agent(context)), ("spec", spec)])
}
