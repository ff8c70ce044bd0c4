//! What is to be injected.

use serde_json::Value;

use crate::inject::cluster_state::ClusterFacts;
use crate::inject::policy::Rules;
use crate::kubernetes::workload::Workload;

/// A pod, and what is known of it.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The pod (or pod template): an object with `metadata` and `spec`. It becomes the injected
    /// one.
    pub pod: Value,
    /// The namespace of the request, or of the workload in a file; empty where it is not known.
    pub namespace: &'a str,
    /// What is known of the cluster.
    pub cluster: ClusterFacts<'a>,
    /// The workload, where the caller knows it; otherwise it is inferred from the pod.
    pub workload: Option<Workload>,
    /// Environment for the proxy from the webhook's path, in any order
    /// (`/inject/cluster/c1/net/n1`).
    pub path_env: &'a [(String, String)],
    /// Which rules decide.
    pub rules: Rules,
}

impl<'a> Target<'a> {
    /// A new pod of a namespace, decided as at admission; nothing else is known.
    pub fn at_admission(pod: Value, namespace: &'a str) -> Self {
        Self {
            pod,
            namespace,
            cluster: ClusterFacts::default(),
            workload: None,
            path_env: &[],
            rules: Rules::Admission,
        }
    }
}
