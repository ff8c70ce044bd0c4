//! Order of an overlay's containers and variables, aligned with the pod before the merge.

use serde_json::Value;

use crate::inject::computed_env::{COMPUTED, has_computed};
use crate::inject::prepare::path_env::Variables;
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, find, find_proxy, variable};

/// Brings the containers of an overlay into the order that those of them have which the pod has
/// already: Kubernetes' merge puts what stands before one of them in the pod before all that the
/// overlay has after it, and a proxy, which the overlay may have first, comes last in the pod.
pub(crate) fn overlay_containers(overlay: &mut Value, pod: &Value) {
    for list in [CONTAINERS, INIT_CONTAINERS] {
        let lists = overlay.get_mut("spec").and_then(|spec| spec.get_mut(list));
        let Some(items) = lists.and_then(Value::as_array_mut) else { continue };
        let place = |item: &Value| find(pod, list, item["name"].as_str()?);
        let (slots, mut places): (Vec<_>, Vec<_>) = items
            .iter()
            .enumerate()
            .filter_map(|(slot, item)| Some((slot, (place(item)?, slot))))
            .unzip();
        if places.is_sorted() {
            continue;
        }
        places.sort_unstable();
        let mut present: Vec<_> = places.iter().map(|(_, slot)| items[*slot].take()).collect();
        for (slot, item) in slots.into_iter().zip(present.drain(..)) {
            items[slot] = item;
        }
    }
}

/// Gives an overlay the variables that come last, each once and in that place: a merge keeps what
/// the user has before them, the second time as the first. What is found out of the application
/// stands where the pod's proxy has it already.
pub(crate) fn overlay_env(overlay: &mut Value, variables: &Variables, pod: &Value) {
    let Some((list, index)) = find_proxy(overlay) else { return };
    let env = overlay["spec"][list][index].get_mut("env").and_then(Value::as_array_mut);
    let Some(env) = env else { return };
    let last = |name: &str| {
        !COMPUTED.contains(&name) && variables.iter().any(|(variable, _)| variable == name)
    };
    env.retain(|variable| {
        let name = variable["name"].as_str().unwrap_or_default();
        !last(name) && !has_computed(pod, name)
    });
    let variables = variables.iter().filter(|(name, _)| last(name));
    env.extend(variables.map(|(name, value)| variable(name, value)));
}
