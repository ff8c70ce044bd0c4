//! The order of an injected pod's containers, and of the proxy's environment.

use serde_json::Value;

use super::path_env::Variables;
use super::{
    COMPUTED, CONTAINERS, INIT_CONTAINERS, find, find_proxy, has_computed, in_container, variable,
};
use crate::change::{Draft, Step};
use crate::overlay::PROXY;

/// Orders the containers as Istio does.
///
/// A proxy in `containers` is first if the application waits for it, else last. A native sidecar
/// and the init containers that prepare it precede all other init containers. Without a native
/// sidecar the capture starts after the others, so that they still reach the network. `injected`
/// has the names of the containers that are not the pod's own.
pub fn containers(draft: &mut Draft, injected: &Value, hold_application: bool) {
    let proxy: (&[&str], &[&str]) =
        if hold_application { (&[PROXY], &[]) } else { (&[], &[PROXY]) };
    arrange(draft, &["spec".into(), CONTAINERS.into()], proxy.0, proxy.1);
    let init = ["spec".into(), INIT_CONTAINERS.into()];
    let is_injected = |name| find(injected, INIT_CONTAINERS, name).is_some();
    if find(draft.value(), INIT_CONTAINERS, PROXY).is_some() {
        arrange(draft, &init, &[INIT, VALIDATION, PROXY, CORE_DUMP], &[]);
    } else if is_injected(INIT) && is_injected(VALIDATION) {
        // One of them is from a previous injection with other settings; validating first is
        // useless.
        arrange(draft, &init, &[], &[INIT, VALIDATION, CORE_DUMP]);
    } else {
        arrange(draft, &init, &[VALIDATION], &[INIT, CORE_DUMP]);
    }
}

/// Orders the containers of an overlay that the pod already has in the pod's order. Kubernetes'
/// merge would otherwise move containers: items before a shared one in the pod come before all
/// items after it in the overlay. The proxy may be first in the overlay and last in the pod.
pub fn overlay_containers(overlay: &mut Value, pod: &Value) {
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

/// Moves the variables that are written after the merge to the end, in a fixed order, so that
/// reinjection finds them in place.
pub fn proxy_env(draft: &mut Draft, variables: &Variables) {
    let Some((list, index)) = find_proxy(draft.value()) else { return };
    let last: Vec<_> = variables.iter().map(|(name, _)| name.as_str()).chain(COMPUTED).collect();
    arrange(draft, &in_container(list, index, ["env".into()]), &[], &last);
}

/// Adds to an overlay the variables that come last, each once and at the end. The merge then keeps
/// user-supplied variables before them, in reinjection too. Variables that describe the application
/// are left to the pod's proxy if it has them.
pub fn overlay_env(overlay: &mut Value, variables: &Variables, pod: &Value) {
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

/// Moves the named items to the start and the end, in the order of the names. The others stay
/// between.
fn arrange(draft: &mut Draft, path: &[Step<'_>], first: &[&str], last: &[&str]) {
    let Some(items) = draft.at(path).and_then(Value::as_array) else { return };
    let rank = |index: &usize| {
        let name = items[*index]["name"].as_str().unwrap_or_default();
        let place = |names: &[&str]| names.iter().position(|one| *one == name);
        match (place(first), place(last)) {
            (Some(place), _) => (0, place),
            (_, Some(place)) => (2, place),
            _ => (1, 0),
        }
    };
    let mut order: Vec<usize> = (0..items.len()).collect();
    if order.is_sorted_by_key(rank) {
        return;
    }
    order.sort_by_key(rank);
    draft.reorder(path, &order);
}

const CORE_DUMP: &str = "enable-core-dump";
const INIT: &str = "istio-init";
const VALIDATION: &str = "istio-validation";
