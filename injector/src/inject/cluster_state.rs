//! What is known of the cluster round a pod.

use std::collections::BTreeMap;

use crate::settings::proxy_configs::ProxyConfigs;

/// What the cluster says of one pod's surroundings; by default, nothing is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterFacts<'a> {
    /// The annotations of the pod's namespace; `OpenShift` writes into them which users and groups a
    /// pod may have.
    pub namespace_annotations: Option<&'a BTreeMap<String, String>>,
    /// Whether the nodes that the pod may come to have native sidecars; in place of
    /// [`Process::native_sidecars`](crate::settings::Process::native_sidecars).
    pub native_sidecars: Option<bool>,
    /// The `ProxyConfig` resources.
    pub proxy_configs: Option<&'a ProxyConfigs>,
}
