//! Environment of the proxy from the webhook's path (multi-cluster, multi-network).

use std::collections::BTreeMap;

use crate::overlay::context::Context;

/// Returns the variables of the path with cluster and network, sorted by name. The pod's label
/// takes precedence over the path, and the path over the values. Empty values are skipped.
pub fn variables(context: &Context<'_>, path_env: &[(String, String)]) -> Variables {
    let global = &context.settings.values.global;
    let path = path_env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut variables: BTreeMap<_, _> = path.collect();
    let label = context.pod["metadata"]["labels"][NETWORK_LABEL].as_str().unwrap_or_default();
    for (name, own, default) in
        [(CLUSTER_ID, "", &*global.multi_cluster.cluster_name), (NETWORK, label, &*global.network)]
    {
        let of_path = variables.get(name).copied().unwrap_or_default();
        let known = [own, of_path, default].into_iter().find(|value| !value.is_empty());
        match known {
            Some(value) => variables.insert(name, value),
            // The overlay's own default stays.
            None => variables.remove(name),
        };
    }
    variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Returns the network among the variables.
pub fn network(variables: &Variables) -> Option<&str> {
    let network = variables.iter().find(|(name, _)| name == NETWORK);
    network.map(|(_, value)| value.as_str()).filter(|network| !network.is_empty())
}

/// Names and values, sorted by name.
pub type Variables = Vec<(String, String)>;

/// The label with a pod's network.
pub const NETWORK_LABEL: &str = "topology.istio.io/network";

const CLUSTER_ID: &str = "ISTIO_META_CLUSTER_ID";

/// The variable with a pod's network.
pub const NETWORK: &str = "ISTIO_META_NETWORK";
