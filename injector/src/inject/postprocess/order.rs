//! The order of an injected pod's containers, and of the proxy's environment.

use serde_json::Value;

use crate::inject::computed_env::COMPUTED;
use crate::inject::prepare::path_env::Variables;
use crate::json::change::{Draft, PathStep};
use crate::kubernetes::pod::{
    CONTAINERS, INIT_CONTAINERS, PROXY, VALIDATION, find, find_proxy, in_container,
};

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

/// Moves the variables that are written after the merge to the end, in a fixed order, so that
/// reinjection finds them in place.
pub fn proxy_env(draft: &mut Draft, variables: &Variables) {
    let Some((list, index)) = find_proxy(draft.value()) else { return };
    let last: Vec<_> = variables.iter().map(|(name, _)| name.as_str()).chain(COMPUTED).collect();
    arrange(draft, &in_container(list, index, ["env".into()]), &[], &last);
}

/// Moves the named items to the start and the end, in the order of the names. The others stay
/// between.
fn arrange(draft: &mut Draft, path: &[PathStep<'_>], first: &[&str], last: &[&str]) {
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
