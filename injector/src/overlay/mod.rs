//! Overlays: partial pods with the injected content, merged into the pod.

pub mod context;
pub mod error;
pub mod gateway;
pub mod grpc_agent;
pub mod grpc_simple;
pub(crate) mod image;
pub(crate) mod init_container;
pub(crate) mod metadata;
mod proxy_container;
pub(crate) mod proxy_env;
pub mod sidecar;
mod template_data;
mod volumes;

use serde_json::Value;

use self::context::Context;
use self::error::{OverlayError, not_found};
use crate::kubernetes::pod_schema;

/// Returns the overlay of this name: a template of the configuration, or else a built-in one.
pub fn make(name: &str, context: &Context<'_>) -> Result<Value, OverlayError> {
    let templates = &context.settings.templates;
    if templates.contains(name) {
        let rendered = templates.render(name, template_data::from_context(context));
        return rendered.map(pod_schema::decoded).map_err(OverlayError::Template);
    }
    match name {
        "gateway" => Ok(gateway::overlay(context)),
        "grpc-agent" => Ok(grpc_agent::overlay(context)),
        "grpc-simple" => Ok(grpc_simple::overlay(context)),
        "sidecar" => Ok(sidecar::overlay(context)),
        _ => Err(not_found(name, &context.settings.inject, context.annotations)),
    }
}
