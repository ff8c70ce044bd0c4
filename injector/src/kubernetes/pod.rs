//! Containers, environment and annotations of a pod.

use serde_json::{Value, json};

use crate::json::change::PathStep;

/// The name of the proxy's container.
pub const PROXY: &str = "istio-proxy";

/// The name of the init container that checks the rules of a CNI plugin.
pub const VALIDATION: &str = "istio-validation";

/// The list of the application's containers.
pub const CONTAINERS: &str = "containers";

/// The list of init containers, native sidecars among them.
pub const INIT_CONTAINERS: &str = "initContainers";

/// The way to something in a container.
pub fn in_container<'a, const N: usize>(
    list: &'a str,
    index: usize,
    rest: [PathStep<'a>; N],
) -> Vec<PathStep<'a>> {
    ["spec".into(), list.into(), index.into()].into_iter().chain(rest).collect()
}

/// Index of a container in a list.
pub fn find(pod: &Value, list: &str, name: &str) -> Option<usize> {
    pod["spec"][list].as_array()?.iter().position(|container| container["name"] == name)
}

/// List and index of the proxy's container.
pub fn find_proxy(pod: &Value) -> Option<(&'static str, usize)> {
    [CONTAINERS, INIT_CONTAINERS].into_iter().find_map(|list| Some((list, find(pod, list, PROXY)?)))
}

/// An annotation of the pod, by whomever: an overlay may bring some that decide what comes after
/// it.
pub(crate) fn annotation<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod["metadata"]["annotations"][key].as_str()
}

/// Value of a variable in the proxy's environment.
pub(crate) fn proxy_env<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    let (list, index) = find_proxy(pod)?;
    let place = find_env(pod, list, index, name)?;
    pod["spec"][list][index]["env"][place]["value"].as_str()
}

/// A variable as the API server writes it: an empty value is left out.
pub(crate) fn variable(name: &str, value: &str) -> Value {
    let mut variable = json!({"name": name});
    if !value.is_empty() {
        variable["value"] = value.into();
    }
    variable
}

/// Index of a variable in a container's environment.
pub(crate) fn find_env(pod: &Value, list: &str, index: usize, name: &str) -> Option<usize> {
    let env = pod["spec"][list][index]["env"].as_array()?;
    env.iter().position(|variable| variable["name"] == name)
}
