//! Names of templates: those of the configuration, and the built-in ones.

use std::collections::BTreeMap;

use serde_json::Value;

use super::annotations::key;
use crate::kubernetes::pod::annotation;

/// Returns the names that a pod's annotation requests; none without the annotation.
pub(crate) fn requested(pod: &Value) -> impl Iterator<Item = &str> {
    let names = annotation(pod, key::TEMPLATES).unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty())
}

/// Returns the requested names of templates that are not built in.
pub(crate) fn requested_of_user(pod: &Value) -> impl Iterator<Item = &str> {
    requested(pod).filter(|name| !BUILT_IN.contains(name))
}

/// True if there is an overlay of this name, beside the configuration's templates.
pub fn exists(name: &str, templates: &BTreeMap<String, String>) -> bool {
    templates.contains_key(name) || BUILT_IN.contains(&name)
}

/// The names of all overlays, in their order.
pub fn names(templates: &BTreeMap<String, String>) -> Vec<&str> {
    let mut names: Vec<_> = templates.keys().map(String::as_str).collect();
    names.extend(BUILT_IN.iter().filter(|name| !templates.contains_key(**name)));
    names.sort_unstable();
    names
}

const BUILT_IN: [&str; 4] = ["gateway", "grpc-agent", "grpc-simple", "sidecar"];
