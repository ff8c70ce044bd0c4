//! Data that an overlay is made from.

use mesh::proxy_config::ProxyConfig;
use serde_json::Value;

use crate::istio::proxy_identity::Identity;
use crate::kubernetes::pod::PROXY;
use crate::kubernetes::workload::Workload;
use crate::settings::Settings;
use crate::settings::annotations::{Annotations, key};
use crate::settings::values::Values;

/// All that an overlay is made from: one pod, and what applies to it.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// The pod, without what an earlier injection put into it.
    pub pod: &'a Value,
    /// Its annotations, valid.
    pub annotations: Annotations<'a>,
    /// The namespace of the request, for a pod that does not name its own; empty for a workload in
    /// a file.
    pub namespace: &'a str,
    /// The workload it belongs to.
    pub workload: &'a Workload,
    /// The proxy's configuration, all layers on top of each other.
    pub proxy_config: &'a ProxyConfig,
    /// The user and group that the proxy runs as.
    pub identity: Identity,
    /// True if the proxy becomes a native sidecar (KEP-753).
    pub native_sidecar: bool,
    /// Default of `native_sidecar` for pods without the annotation.
    pub native_sidecars: bool,
}

impl<'a> Context<'a> {
    pub(super) fn values(&self) -> &'a Values {
        &self.settings.values
    }

    /// A label of the pod, unless it is empty.
    pub(super) fn label(&self, key: &str) -> Option<&'a str> {
        self.pod["metadata"]["labels"][key].as_str().filter(|value| !value.is_empty())
    }

    /// Capture mode of inbound connections: `REDIRECT`, `TPROXY` or `NONE`.
    pub fn interception_mode(&self) -> &'a str {
        self.annotations.or(key::INTERCEPTION_MODE, self.proxy_config.interception_mode())
    }

    /// False if nothing is captured.
    pub(super) fn has_capture(&self) -> bool {
        self.interception_mode() != "NONE"
    }

    pub(super) fn tproxy(&self) -> bool {
        self.interception_mode() == "TPROXY"
    }

    /// Port on which the agent answers probes, as text; `0` for none.
    pub(super) fn status_port(&self) -> &'a str {
        self.annotations.or(key::STATUS_PORT, &self.values().global.proxy.status_port).trim()
    }

    /// The names of the application's containers, in order.
    pub(super) fn application_containers(&self) -> impl Iterator<Item = &'a str> {
        let containers = self.pod["spec"]["containers"].as_array().into_iter().flatten();
        let names = containers.map(|container| container["name"].as_str().unwrap_or_default());
        names.filter(|name| *name != PROXY)
    }

    /// Requests and limits of the injected containers: from the annotations if one of them is set,
    /// else from the values. Null if neither has any, so that the merge removes those of a previous
    /// injection.
    pub(super) fn resources(&self) -> Value {
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

    /// Additions of every overlay with an agent to the pod's own fields.
    pub(super) fn spec(&self, volumes: Vec<Value>) -> Value {
        let mut spec = object([("volumes", volumes.into())]);
        let secrets = &self.values().global.image_pull_secrets;
        if !secrets.is_empty() {
            let secrets = secrets.iter().map(|name| serde_json::json!({"name": &**name}));
            spec["imagePullSecrets"] = secrets.collect();
        }
        spec
    }

    pub(super) fn seccomp_profile(&self) -> Option<&'a Value> {
        let profile = &self.values().global.proxy.seccomp_profile;
        profile.as_object().filter(|profile| !profile.is_empty()).map(|_| profile)
    }
}

/// An object of members that are moved into it; `json!` copies what it is given.
pub(super) fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let mut object = serde_json::Map::new();
    for (key, value) in members {
        object.insert(key.to_owned(), value);
    }
    Value::Object(object)
}

/// The value without its nulls, and without what is empty then.
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

/// A number where the text is one, so that a probe gets a number.
pub(super) fn number(text: &str) -> Value {
    text.trim().parse::<u64>().map_or_else(|_| Value::from(text), Value::from)
}
