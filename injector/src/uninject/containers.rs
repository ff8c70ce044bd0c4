//! Containers before injection.

use std::collections::HashSet;

use reason::Reason;
use serde_json::{Map, Value, json};

use super::{doubt, probes, remove_if_empty};
use crate::inject::reinject::overrides::LONG;
use crate::inject::reinject::status::{self, InjectionStatus, Overrides};
use crate::inject::reinject::user_containers::respell_amounts;
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, PROXY, VALIDATION};
use crate::overlay::image::AUTO;
use crate::settings::annotations::key;
use crate::settings::template_names;

/// Removes the injected containers, puts the recorded ones back, and restores the handlers of the
/// others.
pub(super) fn restore(
    pod: &mut Value,
    injected: &Value,
    status: &InjectionStatus,
    overrides: &Overrides,
    doubts: &mut Vec<Reason>,
) {
    let recorded = overrides.containers.iter().chain(&overrides.init);
    let recorded: HashSet<_> =
        recorded.filter_map(|container| container["name"].as_str()).collect();
    let probers = probes::Probers::from_pod(injected);
    let mut shown = shown(lists_of(pod, injected), status, overrides);
    for list in [INIT_CONTAINERS, CONTAINERS] {
        let kept = shown.get_mut("spec").and_then(|spec| spec.get_mut(list));
        let mut kept = kept.map(Value::take).unwrap_or_default();
        for container in kept.as_array_mut().into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            if recorded.contains(&*name) {
                complete(container, &name, injected, doubts);
                if name == PROXY && list == INIT_CONTAINERS && !container["restartPolicy"].is_null()
                {
                    // Injection writes it into the record, so that a second one knows the list.
                    let message = format!(
                        "spec.{list}[{PROXY}].restartPolicy is {}; the author may have left it out",
                        container["restartPolicy"]
                    );
                    doubts.push(doubt::not_recorded(message));
                }
            }
            // A record of a second injection, by other templates, may have handlers of the first.
            probers.restore(container, list, doubts);
        }
        for name in moved(&kept).filter(|name| *name != PROXY || recorded.contains(PROXY)) {
            let message = format!(
                "container {name} is put back into spec.{list}; its position there is not recorded"
            );
            doubts.push(doubt::not_recorded(message));
        }
        let spec = pod.get_mut("spec").and_then(Value::as_object_mut);
        if let Some(spec) = spec.filter(|_| !kept.is_null()) {
            spec.insert(list.to_owned(), kept);
        }
        if !is_empty(&injected["spec"][list]) {
            remove_if_empty(pod.get_mut("spec"), list);
        }
    }
}

/// Returns the pod without injected containers, and with the recorded ones.
fn shown(mut pod: Value, status: &InjectionStatus, overrides: &Overrides) -> Value {
    if !overrides.is_empty() {
        return status::without(&pod, Some(status), NO_PORT).into_owned();
    }
    for list in [INIT_CONTAINERS, CONTAINERS] {
        if let Some(Value::Array(containers)) = pod["spec"].get_mut(list) {
            status.remove_injected(list, containers);
        }
    }
    pod
}

/// Moves the containers out of `pod` into one that has no other field but the record of the
/// user-supplied containers.
fn lists_of(pod: &mut Value, injected: &Value) -> Value {
    let mut moved = Map::new();
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        for list in [INIT_CONTAINERS, CONTAINERS] {
            let containers = spec.get_mut(list).filter(|list| list.is_array());
            if let Some(containers) = containers.map(Value::take) {
                spec.remove(list);
                moved.insert(list.to_owned(), containers);
            }
        }
    }
    let overrides = &injected["metadata"]["annotations"][key::OVERRIDES];
    let mut pod = json!({"metadata": {"annotations": {(key::OVERRIDES): overrides}}});
    pod["spec"] = moved.into();
    pod
}

/// Returns a container of the sidecar that is still there, and that its user did not supply.
///
/// An injection adds one of the two init containers, so the other one is the user's.
pub(super) fn not_named(
    pod: &Value,
    status: &InjectionStatus,
    overrides: &Overrides,
) -> Option<&'static str> {
    let Overrides { containers, init } = overrides;
    let has = |list: &[Value], name: &str| list.iter().any(|container| container["name"] == name);
    let lists = [CONTAINERS, INIT_CONTAINERS].map(|list| pod["spec"][list].as_array());
    let is_there = |name: &str| lists.iter().flatten().any(|list| has(list, name));
    let is_recorded = |name: &str| has(containers, name) || has(init, name);
    let is_injected = |name: &str| status.names().any(|injected| injected == name);
    // Other built-in templates add no init container.
    let mut templates = template_names::requested(pod).peekable();
    let has_sidecar = templates.peek().is_none() || templates.any(|name| name == "sidecar");
    let is_of_user = |name: &str| match name {
        INIT => !has_sidecar || is_injected(VALIDATION),
        VALIDATION => !has_sidecar || is_injected(INIT),
        _ => false,
    };
    let mut sidecar = SIDECAR.into_iter();
    sidecar.find(|name| is_there(name) && !is_recorded(name) && !is_of_user(name))
}

/// Completes a container from the record, which leaves out or normalises some fields.
fn complete(container: &mut Value, name: &str, injected: &Value, doubts: &mut Vec<Reason>) {
    respell_amounts(container, name, injected);
    let lists = [CONTAINERS, INIT_CONTAINERS].map(|list| injected["spec"][list].as_array());
    let mut present = lists.into_iter().flatten().flatten();
    let present = present.find(|present| present["name"] == name).unwrap_or(&Value::Null);
    let Some(fields) = container.as_object_mut() else { return };
    // Kubernetes requires an image; the record leaves out this one alone.
    fields.entry("image").or_insert(AUTO.into());
    let Some(env) = present["env"].as_array().filter(|env| env.len() > LONG) else { return };
    let own = fields.get("env").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if own.len() > LONG {
        return;
    }
    // The record of a long environment has only the variables that injection changed.
    let of_record = |variable: &Value| own.iter().find(|own| own["name"] == variable["name"]);
    let env = env.iter().map(|variable| of_record(variable).unwrap_or(variable).clone());
    fields.insert("env".to_owned(), env.collect());
    doubts.push(doubt::may_be_injected(&format!("the environment of container {name}")));
}

/// Returns the names of containers that injection may have moved among others of the list.
fn moved(list: &Value) -> impl Iterator<Item = &'static str> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |name: &str| list.iter().any(|container| container["name"] == name);
    SIDECAR.into_iter().filter(move |name| list.len() > 1 && has(name))
}

fn is_empty(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

/// Containers of every sidecar.
const INIT: &str = "istio-init";
const SIDECAR: [&str; 3] = [PROXY, INIT, VALIDATION];
/// Status port that no annotation names, because [`super::metrics`] restores these annotations.
const NO_PORT: u16 = 0;
