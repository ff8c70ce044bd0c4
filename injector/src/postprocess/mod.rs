//! Postprocessing of a pod after the merge: probes, metrics, metadata, order of containers.

pub mod metadata;
pub mod order;
pub mod path_env;
pub mod probes;
pub mod prometheus;

use serde_json::{Value, json};

use crate::change::{Draft, Step};
use crate::overlay::PROXY;

/// The list of the application's containers.
pub const CONTAINERS: &str = "containers";

/// The list of init containers, native sidecars included.
pub const INIT_CONTAINERS: &str = "initContainers";

/// Variables of the proxy that describe the application's metrics and probes.
const COMPUTED: [&str; 2] = [prometheus::SCRAPE_CONFIG, probes::PROBERS];

/// Returns the path to a part of a container.
pub fn in_container<'a, const N: usize>(
    list: &'a str,
    index: usize,
    rest: [Step<'a>; N],
) -> Vec<Step<'a>> {
    ["spec".into(), list.into(), index.into()].into_iter().chain(rest).collect()
}

/// Returns the index of a container in a list.
pub fn find(pod: &Value, list: &str, name: &str) -> Option<usize> {
    pod["spec"][list].as_array()?.iter().position(|container| container["name"] == name)
}

/// Returns the list and index of the proxy's container.
pub fn find_proxy(pod: &Value) -> Option<(&'static str, usize)> {
    [CONTAINERS, INIT_CONTAINERS].into_iter().find_map(|list| Some((list, find(pod, list, PROXY)?)))
}

/// Returns an annotation of the pod. An overlay may have added it, and it may decide later steps.
pub(crate) fn annotation<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod["metadata"]["annotations"][key].as_str()
}

/// Sets a variable of the proxy, if there is a proxy. A new one is appended.
fn put_env(draft: &mut Draft, name: &str, value: &str) {
    let Some((list, index)) = find_proxy(draft.value()) else { return };
    let variable = variable(name, value);
    match find_env(draft.value(), list, index, name) {
        Some(place) => {
            draft.set(&in_container(list, index, ["env".into(), place.into()]), variable);
        }
        None => draft.push(&in_container(list, index, ["env".into()]), variable),
    }
}

/// Returns a variable as the API server writes it, without an empty value.
fn variable(name: &str, value: &str) -> Value {
    let mut variable = json!({"name": name});
    if !value.is_empty() {
        variable["value"] = value.into();
    }
    variable
}

/// Returns the proxy's variables that describe the application.
pub fn computed_of(pod: &Value) -> Vec<Value> {
    let Some((list, index)) = find_proxy(pod) else { return Vec::new() };
    let places = COMPUTED.iter().filter_map(|name| find_env(pod, list, index, name));
    places.map(|place| pod["spec"][list][index]["env"][place].clone()).collect()
}

/// Restores the proxy's computed variables of a previous injection if a template removed them with
/// the whole environment. The application's probes already go to the agent, and nothing else
/// records their original targets.
pub fn put_back_computed(draft: &mut Draft, earlier: Vec<Value>) {
    for variable in earlier {
        let Some((list, index)) = find_proxy(draft.value()) else { return };
        let name = variable["name"].as_str().unwrap_or_default();
        if find_env(draft.value(), list, index, name).is_none() {
            draft.push(&in_container(list, index, ["env".into()]), variable);
        }
    }
}

/// True if the proxy has this variable, and the variable describes the application.
pub fn has_computed(pod: &Value, name: &str) -> bool {
    let place = |(list, index)| find_env(pod, list, index, name);
    COMPUTED.contains(&name) && find_proxy(pod).and_then(place).is_some()
}

/// Returns the index of a variable in a container's environment.
fn find_env(pod: &Value, list: &str, index: usize, name: &str) -> Option<usize> {
    let env = pod["spec"][list][index]["env"].as_array()?;
    env.iter().position(|variable| variable["name"] == name)
}
