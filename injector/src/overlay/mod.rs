//! Overlays: partial pods with the injected content, merged into the pod.

mod actions;
mod asked;
mod chains;
mod container_port;
mod data;
mod datum;
pub(crate) mod fit;
mod functions;
pub mod gateway;
mod go_names;
mod go_values;
pub mod grpc_agent;
pub mod grpc_simple;
mod guard;
pub mod identity;
mod image;
mod init_container;
mod marshalled;
mod metadata;
mod metered;
mod methods;
mod nesting;
mod otel;
mod proxy_container;
mod proxy_env;
mod rendering;
mod rewriting;
pub mod sidecar;
mod strings;
pub mod template;
mod template_error;
mod tokens;
mod typed;
mod volumes;

use std::collections::BTreeMap;

use serde_json::Value;

use self::identity::Identity;
use self::template_error::TemplateError;
use crate::requested::Asker;
use crate::settings::Settings;
use crate::settings::annotations::{Annotations, key};
use crate::settings::inject_config::InjectConfig;
use crate::settings::proxy_config::ProxyConfig;
use crate::settings::values::Values;
use crate::settings::{excerpt, near};
use crate::workload::Workload;

/// Returns the overlay of this name: a template of the configuration, or else a built-in one.
pub fn make(name: &str, context: &Context<'_>) -> Result<Value, OverlayError> {
    let templates = &context.settings.templates;
    if templates.contains(name) {
        let rendered = templates.render(name, data::of(context));
        return rendered.map(fit::decoded).map_err(OverlayError::Template);
    }
    match name {
        "gateway" => Ok(gateway::overlay(context)),
        "grpc-agent" => Ok(grpc_agent::overlay(context)),
        "grpc-simple" => Ok(grpc_simple::overlay(context)),
        "sidecar" => Ok(sidecar::overlay(context)),
        _ => Err(not_found(name, &context.settings.inject, context.annotations)),
    }
}

/// True if there is a template or a built-in overlay of this name.
pub fn exists(name: &str, templates: &BTreeMap<String, String>) -> bool {
    templates.contains_key(name) || BUILT_IN.contains(&name)
}

/// Returns the names of all overlays, sorted.
pub fn names(templates: &BTreeMap<String, String>) -> Vec<&str> {
    let mut names: Vec<_> = templates.keys().map(String::as_str).collect();
    names.extend(BUILT_IN.iter().filter(|name| !templates.contains_key(**name)));
    names.sort_unstable();
    names
}

/// Returns the error for an unknown overlay.
pub fn not_found(name: &str, config: &InjectConfig, annotations: Annotations<'_>) -> OverlayError {
    let have = names(&config.templates);
    let asker = Asker::of(name, config, annotations);
    let name = excerpt::of(name).into_owned();
    let near = near::among(&name, &have);
    let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    OverlayError::NotFound { name, have: have.join(", "), near, asker }
}

/// Error in the creation of an overlay.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OverlayError {
    /// No overlay has this name.
    #[error("requested template {name:?} not found; have {have} (asked for by {asker}){near}")]
    NotFound {
        /// The requested name.
        name: String,
        /// The known names.
        have: String,
        /// "Did you mean" suggestion as the end of a sentence; empty without a similar name.
        near: String,
        /// Source of the request.
        asker: Asker,
    },
    /// The configuration's template fails for this pod.
    #[error(transparent)]
    Template(TemplateError),
}

/// Input of an overlay: one pod and the settings that apply to it.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Settings of the injector.
    pub settings: &'a Settings,
    /// The pod, without the parts from a previous injection.
    pub pod: &'a Value,
    /// The pod's annotations, validated.
    pub annotations: Annotations<'a>,
    /// The namespace of the admission request, for a pod that does not name its own; empty for a
    /// workload in a file.
    pub namespace: &'a str,
    /// The workload that owns the pod.
    pub workload: &'a Workload,
    /// The proxy's configuration, merged from all layers.
    pub proxy_config: &'a ProxyConfig,
    /// The user and group of the proxy.
    pub identity: Identity,
    /// True if the proxy is injected as a native sidecar (KEP-753).
    pub native_sidecar: bool,
    /// True if native sidecars are the default, for a pod that does not choose.
    pub native_sidecars: bool,
}

impl<'a> Context<'a> {
    fn values(&self) -> &'a Values {
        &self.settings.values
    }

    /// Returns a label of the pod, unless it is empty.
    fn label(&self, key: &str) -> Option<&'a str> {
        self.pod["metadata"]["labels"][key].as_str().filter(|value| !value.is_empty())
    }

    /// Returns the capture mode for inbound connections: `REDIRECT`, `TPROXY` or `NONE`.
    pub fn interception_mode(&self) -> &'a str {
        self.annotations.or(key::INTERCEPTION_MODE, self.proxy_config.interception_mode())
    }

    fn tproxy(&self) -> bool {
        self.interception_mode() == "TPROXY"
    }

    /// Returns the agent's port for probes as text; `0` for none.
    fn status_port(&self) -> &'a str {
        self.annotations.or(key::STATUS_PORT, &self.values().global.proxy.status_port).trim()
    }

    /// Returns the names of the application's containers, in order.
    fn application_containers(&self) -> impl Iterator<Item = &'a str> {
        let containers = self.pod["spec"]["containers"].as_array().into_iter().flatten();
        let names = containers.map(|container| container["name"].as_str().unwrap_or_default());
        names.filter(|name| *name != PROXY)
    }

    /// Returns requests and limits of the injected containers: from annotations if the pod has any,
    /// else from the values. Null if both are empty, to remove those of a previous injection.
    fn resources(&self) -> Value {
        let given = |requirement: &str, cpu: &str, memory: &str| {
            let entries =
                [("cpu", cpu), ("memory", memory)].into_iter().filter_map(|(name, key)| {
                    Some((name.to_owned(), Value::from(self.annotations.get(key)?)))
                });
            let entries: serde_json::Map<_, _> = entries.collect();
            (!entries.is_empty()).then(|| (requirement.to_owned(), Value::Object(entries)))
        };
        let requests = given("requests", key::PROXY_CPU, key::PROXY_MEMORY);
        let limits = given("limits", key::PROXY_CPU_LIMIT, key::PROXY_MEMORY_LIMIT);
        if requests.is_some() || limits.is_some() {
            return Value::Object(requests.into_iter().chain(limits).collect());
        }
        let default = &self.values().global.proxy.resources;
        if default.as_object().is_none_or(serde_json::Map::is_empty) {
            return Value::Null;
        }
        without_nulls_and_empty(default).unwrap_or_else(|| Value::Object(serde_json::Map::new()))
    }

    /// Returns the pod fields that every overlay with an agent adds.
    fn spec(&self, volumes: Vec<Value>) -> Value {
        let mut spec = object([("volumes", volumes.into())]);
        let secrets = &self.values().global.image_pull_secrets;
        if !secrets.is_empty() {
            let secrets = secrets.iter().map(|name| serde_json::json!({"name": &**name}));
            spec["imagePullSecrets"] = secrets.collect();
        }
        spec
    }

    fn seccomp_profile(&self) -> Option<&'a Value> {
        let profile = &self.values().global.proxy.seccomp_profile;
        profile.as_object().filter(|profile| !profile.is_empty()).map(|_| profile)
    }
}

/// Builds an object from members by moving them; `json!` would copy them.
fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let mut object = serde_json::Map::new();
    for (key, value) in members {
        object.insert(key.to_owned(), value);
    }
    Value::Object(object)
}

/// Name of the proxy's container.
pub const PROXY: &str = "istio-proxy";

/// Environment variable of the proxy with the ports of all containers, in their order.
pub const POD_PORTS: &str = "ISTIO_META_POD_PORTS";

/// Environment variable of the proxy with the resource attributes of its spans.
pub const SPAN_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

const BUILT_IN: [&str; 4] = ["gateway", "grpc-agent", "grpc-simple", "sidecar"];

/// Removes nulls, and then empty objects and lists; `None` if nothing remains.
fn without_nulls_and_empty(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(members) => {
            let members: serde_json::Map<_, _> = members
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), without_nulls_and_empty(value)?)))
                .collect();
            (!members.is_empty()).then_some(Value::Object(members))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().filter_map(without_nulls_and_empty).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        scalar => Some(scalar.clone()),
    }
}

/// Returns a number if the text is one, as probes require numbers.
fn number(text: &str) -> Value {
    text.trim().parse::<u64>().map_or_else(|_| Value::from(text), Value::from)
}
