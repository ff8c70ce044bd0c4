//! Overload manager: limit of downstream connections.

use serde_json::{Value, json};

/// Returns the overload manager.
pub(super) fn manager(downstream_connections: u64) -> Value {
    json!({ "resource_monitors": [{
        "name": "envoy.resource_monitors.global_downstream_max_connections",
        "typed_config": {
            "@type": super::type_url(
                "resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig"
            ),
            "max_active_downstream_connections": downstream_connections,
        },
    }] })
}
