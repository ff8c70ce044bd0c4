//! Input of an injection.

use serde_json::Value;

use crate::inject::cluster_state::ClusterFacts;
use crate::inject::policy::Rules;
use crate::kubernetes::workload::Workload;

/// A pod with its namespace, its workload and the known state of the cluster.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The pod (or pod template): an object with `metadata` and `spec`. Injection changes it in
    /// place.
    pub pod: Value,
    /// The namespace of the request, or of the workload in a file; empty if unknown.
    pub namespace: &'a str,
    /// Known state of the cluster.
    pub cluster: ClusterFacts<'a>,
    /// The workload, if the caller knows it; otherwise it is inferred from the pod.
    pub workload: Option<Workload>,
    /// Environment for the proxy from the webhook's path, in any order
    /// (`/inject/cluster/c1/net/n1`).
    pub path_env: &'a [(String, String)],
    /// The rules of the injection decision.
    pub rules: Rules,
}

impl<'a> Target<'a> {
    /// Returns a target for a new pod at admission, with nothing known except its namespace.
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
