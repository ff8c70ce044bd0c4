//! The overlay `sidecar`: an init container that captures the pod's traffic, and the proxy that
//! handles it.

use serde_json::Value;

use super::context::{Context, object};
use super::{init_container, metadata, proxy_container, volumes};

/// Returns the overlay for one pod.
pub fn overlay(context: &Context<'_>) -> Value {
    let init = context.has_capture().then(|| init_container::container(context));
    let proxy = proxy_container::of_sidecar(context);
    let mut spec = context.spec(volumes::of_sidecar(context));
    if context.native_sidecar {
        spec["initContainers"] = init.into_iter().chain([proxy]).collect();
    } else {
        spec["initContainers"] = init.into_iter().collect();
        spec["containers"] = vec![proxy].into();
    }
    object([("metadata", metadata::of_sidecar(context)), ("spec", spec)])
}
