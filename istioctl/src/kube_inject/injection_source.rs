//! Settings and cluster state for injecting a file.

use injector::inject::policy::Rules;
use injector::settings::Settings;

use super::cluster_state::ClusterSnapshot;
/// Settings and cluster state for injecting workloads.
#[derive(Debug)]
pub(super) struct InjectionInputs {
    pub(super) settings: Settings,
    pub(super) rules: Rules,
    /// The namespace of workloads that name none; empty if unknown.
    pub(super) namespace: String,
    /// Environment of the proxy from the path of a cluster's webhook.
    pub(super) path_env: Vec<(String, String)>,
    pub(super) snapshot: ClusterSnapshot,
}

impl InjectionInputs {
    /// Returns the input of an injection without a cluster.
    pub(super) fn from_files(settings: Settings, namespace: &str) -> Self {
        Self {
            settings,
            rules: Rules::Manual,
            namespace: namespace.to_owned(),
            path_env: Vec::new(),
            snapshot: ClusterSnapshot::default(),
        }
    }
}
