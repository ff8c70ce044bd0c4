//! Environment that the webhook's path gives the proxy (multi-cluster, multi-network).

use serde_json::{Value, json};

use super::{find_proxy, in_container};
use crate::change::Draft;
use crate::overlay::Context;

/// The variables of the path with cluster and network: the pod's label stands before the path,
/// the path before the values. Sorted by name.
pub fn variables(context: &Context<'_>, path_env: &[(String, String)]) -> Vec<(String, String)> {
    let global = &context.settings.values.global;
    let mut variables = std::collections::BTreeMap::new();
    variables.insert(CLUSTER_ID, &*global.multi_cluster.cluster_name);
    variables.insert(NETWORK, &*global.network);
    variables.extend(
        path_env
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str())),
    );
    if let Some(network) = context.pod["metadata"]["labels"][NETWORK_LABEL].as_str() {
        variables.insert(NETWORK, network);
    }
    let set = variables.into_iter().filter(|(_, value)| !value.is_empty());
    set.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Puts the variables at the end of the proxy's environment, instead of those of the same names.
pub fn apply(draft: &mut Draft, variables: &[(String, String)]) {
    let Some((list, index)) = find_proxy(draft.value()).filter(|_| !variables.is_empty()) else {
        return;
    };
    let named = |variable: &Value| variables.iter().any(|(name, _)| variable["name"] == **name);
    let env = draft.value()["spec"][list][index]["env"].as_array();
    let mut env: Vec<_> = env
        .into_iter()
        .flatten()
        .filter(|variable| !named(variable))
        .cloned()
        .collect();
    env.extend(
        variables
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value})),
    );
    draft.set(&in_container(list, index, ["env".into()]), env.into());
}

/// The network among the variables.
pub fn network(variables: &[(String, String)]) -> Option<&str> {
    variables
        .iter()
        .find(|(name, _)| name == NETWORK)
        .map(|(_, value)| value.as_str())
}

/// The label that says which network a pod is in.
pub const NETWORK_LABEL: &str = "topology.istio.io/network";

const CLUSTER_ID: &str = "ISTIO_META_CLUSTER_ID";
const NETWORK: &str = "ISTIO_META_NETWORK";
