//! The overlay `gateway`: a proxy as the main container of the pod.

use serde_json::{Value, json};

use super::context::{Context, object};
use super::{metadata, proxy_container, volumes};

/// Returns the overlay for one pod.
pub fn overlay(context: &Context<'_>) -> Value {
    let mut spec = context.spec(volumes::of_gateway(context));
    let given = &context.values().gateways.security_context;
    spec["securityContext"] = match given.as_object() {
        Some(members) if !members.is_empty() => given.clone(),
        // Lets the proxy bind ports 80 and 443 without being root.
        _ => json!({"sysctls": [{"name": UNPRIVILEGED_PORTS, "value": "0"}]}),
    };
    spec["containers"] = vec![proxy_container::of_gateway(context)].into();
    object([("metadata", metadata::of_gateway(context)), ("spec", spec)])
}

/// The kernel parameter with the first port that needs no privilege.
pub(crate) const UNPRIVILEGED_PORTS: &str = "net.ipv4.ip_unprivileged_port_start";
