//! What happens to a pod after the merge: probes, metrics, metadata, the order of containers.

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

/// The list of init containers, native sidecars among them.
pub const INIT_CONTAINERS: &str = "initContainers";

/// The variables that tell the agent of the application's metrics and probes.
const COMPUTED: [&str; 2] = [prometheus::SCRAPE_CONFIG, probes::PROBERS];

/// The way to something in a container.
pub fn in_container<'a, const N: usize>(
    list: &'a str,
    index: usize,
    rest: [Step<'a>; N],
) -> Vec<Step<'a>> {
    ["spec".into(), list.into(), index.into()].into_iter().chain(rest).collect()
}

/// Where in a list a container stands.
pub fn find(pod: &Value, list: &str, name: &str) -> Option<usize> {
    pod["spec"][list].as_array()?.iter().position(|container| container["name"] == name)
}

/// Where the proxy's container stands: its list and index.
pub fn find_proxy(pod: &Value) -> Option<(&'static str, usize)> {
    [CONTAINERS, INIT_CONTAINERS].into_iter().find_map(|list| Some((list, find(pod, list, PROXY)?)))
}

/// An annotation of the pod, by whomever: an overlay may bring some that decide what comes after
/// it.
pub(crate) fn annotation<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod["metadata"]["annotations"][key].as_str()
}

/// Sets a variable of the proxy, if there is a proxy; a new one comes last.
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

/// A variable as the API server writes it: an empty value is left out.
fn variable(name: &str, value: &str) -> Value {
    let mut variable = json!({"name": name});
    if !value.is_empty() {
        variable["value"] = value.into();
    }
    variable
}

/// The proxy's variables that tell of the application.
pub fn computed_of(pod: &Value) -> Vec<Value> {
    let Some((list, index)) = find_proxy(pod) else { return Vec::new() };
    let places = COMPUTED.iter().filter_map(|name| find_env(pod, list, index, name));
    places.map(|place| pod["spec"][list][index]["env"][place].clone()).collect()
}

/// Gives the proxy variables of an earlier injection that a template took out with all the others:
/// the application's probes ask the agent, and nothing else says what they asked before.
pub fn put_back_computed(draft: &mut Draft, earlier: Vec<Value>) {
    for variable in earlier {
        let Some((list, index)) = find_proxy(draft.value()) else { return };
        let name = variable["name"].as_str().unwrap_or_default();
        if find_env(draft.value(), list, index, name).is_none() {
            draft.push(&in_container(list, index, ["env".into()]), variable);
        }
    }
}

/// Whether the proxy has this variable, and it is one that tells of the application.
pub fn has_computed(pod: &Value, name: &str) -> bool {
    let place = |(list, index)| find_env(pod, list, index, name);
    COMPUTED.contains(&name) && find_proxy(pod).and_then(place).is_some()
}

/// Where in a container's environment a variable stands.
fn find_env(pod: &Value, list: &str, index: usize, name: &str) -> Option<usize> {
    let env = pod["spec"][list][index]["env"].as_array()?;
    env.iter().position(|variable| variable["name"] == name)
}
