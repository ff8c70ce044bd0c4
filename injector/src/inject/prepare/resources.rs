//! Requests and limits of injected containers, for settings and annotations beyond Istio's.

use serde_json::{Map, Value};

use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, PROXY};
use crate::overlay::context::Context;
use crate::settings::annotations::key;
use crate::settings::outrigger::{CpuLimits, PodResources};

/// Sets the resources of an overlay's init container, and omits the default resources that the
/// settings exclude.
pub fn adjust(overlay: &mut Value, context: &Context<'_>) {
    let settings = &context.settings.values.outrigger;
    let given = |keys: &[&str]| keys.iter().any(|key| context.annotations.get(key).is_some());
    let shared = settings.pod_resources == PodResources::Omit
        && pod_resources(context.pod).is_some()
        && !given(&[
            key::PROXY_CPU,
            key::PROXY_MEMORY,
            key::PROXY_CPU_LIMIT,
            key::PROXY_MEMORY_LIMIT,
        ]);
    let own = own_of_init(context);
    for list in [INIT_CONTAINERS, CONTAINERS] {
        // Indexing would insert a null `spec` into an overlay without one.
        let containers = overlay.get_mut("spec").and_then(|spec| spec.get_mut(list));
        let containers = containers.and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let init = INIT.iter().any(|name| container["name"] == *name);
            if !init && container["name"] != PROXY {
                continue;
            }
            let Some(container) = container.as_object_mut() else { continue };
            if let Some(own) = own.as_ref().filter(|_| init) {
                container.insert(RESOURCES.to_owned(), own.clone());
                continue;
            }
            if shared {
                container.remove(RESOURCES);
            }
            if settings.cpu_limits == CpuLimits::Omit && !given(&[key::PROXY_CPU_LIMIT]) {
                omit_cpu_limit(container.get_mut(RESOURCES));
            }
        }
    }
}

pub(crate) fn pod_resources(pod: &Value) -> Option<&Value> {
    let given = &pod["spec"][RESOURCES];
    given.as_object().filter(|given| !given.is_empty()).map(|_| given)
}

/// Returns the init container's resources: the pod's annotations if there are any, else the
/// setting.
fn own_of_init(context: &Context<'_>) -> Option<Value> {
    let given = |kind: &str, cpu: &str, memory: &str| {
        let entries = [("cpu", cpu), ("memory", memory)];
        let entries = entries.into_iter().filter_map(|(name, key)| {
            Some((name.to_owned(), Value::from(context.annotations.get(key)?)))
        });
        let entries: Map<_, _> = entries.collect();
        (!entries.is_empty()).then(|| (kind.to_owned(), Value::Object(entries)))
    };
    let requests = given("requests", key::INIT_CPU, key::INIT_MEMORY);
    let limits = given("limits", key::INIT_CPU_LIMIT, key::INIT_MEMORY_LIMIT);
    if requests.is_some() || limits.is_some() {
        return Some(Value::Object(requests.into_iter().chain(limits).collect()));
    }
    let setting = &context.settings.values.outrigger.init_resources;
    setting.is_object().then(|| setting.clone())
}

fn omit_cpu_limit(resources: Option<&mut Value>) {
    let Some(resources) = resources.and_then(Value::as_object_mut) else { return };
    let Some(limits) = resources.get_mut("limits").and_then(Value::as_object_mut) else { return };
    limits.remove("cpu");
    if limits.is_empty() {
        resources.remove("limits");
    }
}

const INIT: [&str; 2] = ["istio-init", "istio-validation"];
const RESOURCES: &str = "resources";
