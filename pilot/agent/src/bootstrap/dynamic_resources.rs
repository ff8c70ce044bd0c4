//! Sources of listeners and clusters: the control plane, through the agent's relay.

use serde_json::{Value, json};

/// Returns the sources. A proxy without configuration is not ready, so no timeout applies.
pub(super) fn dynamic_resources(delta: bool) -> Value {
    let ads = json!({ "ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3" });
    json!({
        "lds_config": ads,
        "cds_config": ads,
        "ads_config": {
            "api_type": if delta { "DELTA_GRPC" } else { "GRPC" },
            "transport_api_version": "V3",
            "set_node_on_first_message_only": true,
            "grpc_services": [{ "envoy_grpc": {
                "cluster_name": super::XDS_CLUSTER,
                // Envoy's own delays rise to 30 seconds, for which a control plane that has come
                // back would not reach it.
                "retry_policy": { "retry_back_off": {
                    "base_interval": "0.2s",
                    "max_interval": "1s",
                } },
            } }],
        },
    })
}
