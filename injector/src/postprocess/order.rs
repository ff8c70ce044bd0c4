//! The order of an injected pod's containers.

use super::{CONTAINERS, INIT_CONTAINERS, find};
use crate::change::Draft;
use crate::overlay::PROXY;

/// Brings the containers into Istio's order.
///
/// A proxy among the containers stands first if the application waits for it, else last. A native
/// sidecar and what prepares it stand before all other init containers; without one, capture
/// begins after them, so that they still reach the network.
pub fn apply(draft: &mut Draft, hold_application: bool) {
    let containers: (&[&str], &[&str]) = if hold_application {
        (&[PROXY], &[])
    } else {
        (&[], &[PROXY])
    };
    arrange(draft, CONTAINERS, containers.0, containers.1);
    if find(draft.value(), INIT_CONTAINERS, PROXY).is_some() {
        arrange(
            draft,
            INIT_CONTAINERS,
            &[INIT, VALIDATION, PROXY, CORE_DUMP],
            &[],
        );
    } else {
        arrange(draft, INIT_CONTAINERS, &[VALIDATION], &[INIT, CORE_DUMP]);
    }
}

/// Puts the named containers first and last, in the order of the names; the others stay between.
fn arrange(draft: &mut Draft, list: &str, first: &[&str], last: &[&str]) {
    let Some(containers) = draft.value()["spec"][list].as_array() else {
        return;
    };
    let rank = |index: &usize| {
        let name = containers[*index]["name"].as_str().unwrap_or_default();
        let place = |names: &[&str]| names.iter().position(|one| *one == name);
        match (place(first), place(last)) {
            (Some(place), _) => (0, place),
            (_, Some(place)) => (2, place),
            _ => (1, 0),
        }
    };
    let mut order: Vec<usize> = (0..containers.len()).collect();
    if order.is_sorted_by_key(rank) {
        return;
    }
    order.sort_by_key(rank);
    draft.reorder(&["spec".into(), list.into()], &order);
}

const CORE_DUMP: &str = "enable-core-dump";
const INIT: &str = "istio-init";
const VALIDATION: &str = "istio-validation";
