//! Cluster state that the injection of a pod depends on.

use std::collections::BTreeMap;

use crate::settings::proxy_configs::ProxyConfigs;

/// Cluster state for one pod; by default, all of it is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterFacts<'a> {
    /// Annotations of the pod's namespace. In them `OpenShift` writes the users and groups allowed
    /// for pods.
    pub namespace_annotations: Option<&'a BTreeMap<String, String>>,
    /// True if the nodes eligible for the pod support native sidecars. Takes precedence over
    /// [`Process::native_sidecars`](crate::settings::Process::native_sidecars).
    pub native_sidecars: Option<bool>,
    /// The `ProxyConfig` resources.
    pub proxy_configs: Option<&'a ProxyConfigs>,
}
