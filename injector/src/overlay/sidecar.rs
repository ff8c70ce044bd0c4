//! The overlay `sidecar`: an init container that captures the pod's traffic and a proxy that
//! takes it.

use serde_json::{Map, Value};

use super::{Context, init_container, metadata, proxy_container, volumes};

/// Makes the overlay for one pod.
pub fn overlay(context: &Context<'_>) -> Value {
    let init = (context.interception_mode() != "NONE").then(|| init_container::of(context));
    let proxy = proxy_container::of(context);
    let mut spec = Map::new();
    if context.native_sidecar {
        spec.insert(INIT_CONTAINERS.to_owned(), init.into_iter().chain([proxy]).collect());
    } else {
        spec.insert(INIT_CONTAINERS.to_owned(), init.into_iter().collect());
        spec.insert("containers".to_owned(), Value::Array(vec![proxy]));
    }
    spec.insert("volumes".to_owned(), volumes::of(context));
    let secrets = &context.settings.values.global.image_pull_secrets;
    if !secrets.is_empty() {
        let secrets = secrets.iter().map(|name| serde_json::json!({"name": &**name}));
        spec.insert("imagePullSecrets".to_owned(), secrets.collect());
    }
    let mut overlay = Map::new();
    overlay.insert("metadata".to_owned(), metadata::of(context));
    overlay.insert("spec".to_owned(), Value::Object(spec));
    Value::Object(overlay)
}

const INIT_CONTAINERS: &str = "initContainers";
