//! By what the workloads of a file are injected.

use injector::inject::policy::Rules;
use injector::settings::Settings;

use super::cluster_state::Surroundings;

/// By what workloads are injected.
#[derive(Debug)]
pub(super) struct Means {
    pub(super) settings: Settings,
    pub(super) rules: Rules,
    /// The namespace of workloads that name none; empty where it is not known.
    pub(super) namespace: String,
    /// What the path of a cluster's webhook says of the proxy's environment.
    pub(super) path_env: Vec<(String, String)>,
    pub(super) surroundings: Surroundings,
}

impl Means {
    /// By settings alone: nothing is known of a cluster.
    pub(super) fn of_files(settings: Settings, namespace: &str) -> Self {
        Self {
            settings,
            rules: Rules::Manual,
            namespace: namespace.to_owned(),
            path_env: Vec::new(),
            surroundings: Surroundings::default(),
        }
    }
}
