//! Variables of the proxy that describe the application's probes and metrics to the agent.

use serde_json::Value;

use crate::json::change::Draft;
use crate::kubernetes::pod::{find_env, find_proxy, in_container, variable};

/// The variable that tells the agent where the application's metrics are.
pub(crate) const SCRAPE_CONFIG: &str = "ISTIO_PROMETHEUS_ANNOTATIONS";

/// The variable that tells the agent what to ask.
pub(crate) const PROBERS: &str = "ISTIO_KUBE_APP_PROBERS";

/// The variables that tell the agent of the application's metrics and probes.
pub(crate) const COMPUTED: [&str; 2] = [SCRAPE_CONFIG, PROBERS];

/// Sets a variable of the proxy, if there is a proxy; a new one comes last.
pub(crate) fn put_env(draft: &mut Draft, name: &str, value: &str) {
    let Some((list, index)) = find_proxy(draft.value()) else { return };
    let variable = variable(name, value);
    match find_env(draft.value(), list, index, name) {
        Some(place) => {
            draft.set(&in_container(list, index, ["env".into(), place.into()]), variable);
        }
        None => draft.push(&in_container(list, index, ["env".into()]), variable),
    }
}

/// Returns the proxy's variables that describe the application.
pub(super) fn computed_of(pod: &Value) -> Vec<Value> {
    let Some((list, index)) = find_proxy(pod) else { return Vec::new() };
    let places = COMPUTED.iter().filter_map(|name| find_env(pod, list, index, name));
    places.map(|place| pod["spec"][list][index]["env"][place].clone()).collect()
}

/// Restores variables of the previous injection that a template removed from the proxy together
/// with all others. The application's probes call the agent by now, and only these variables have
/// the original probes.
pub(super) fn put_back_computed(draft: &mut Draft, earlier: Vec<Value>) {
    for variable in earlier {
        let Some((list, index)) = find_proxy(draft.value()) else { return };
        let name = variable["name"].as_str().unwrap_or_default();
        if find_env(draft.value(), list, index, name).is_none() {
            draft.push(&in_container(list, index, ["env".into()]), variable);
        }
    }
}

/// True if the proxy has this variable, and it describes the application.
pub(super) fn has_computed(pod: &Value, name: &str) -> bool {
    let place = |(list, index)| find_env(pod, list, index, name);
    COMPUTED.contains(&name) && find_proxy(pod).and_then(place).is_some()
}
