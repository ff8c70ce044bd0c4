//! Workload around a pod template.

use serde_json::Value;

use crate::kubernetes::workload::Workload;

/// The workload of a pod: the name that injection derives labels from, and the labels that its
/// author wrote outside the pod template.
#[derive(Clone, Debug)]
pub struct Origin<'a> {
    /// The workload's name.
    pub(super) name: String,
    /// The object with the pod template; null for a pod.
    object: &'a Value,
}

impl<'a> Origin<'a> {
    /// Infers the workload from a pod's own metadata.
    pub fn from_pod(pod: &Value) -> Self {
        Self { name: Workload::from_pod(pod, "").name, object: &Value::Null }
    }

    /// Takes the workload around a pod template.
    pub fn from_workload(name: &str, object: &'a Value) -> Self {
        Self { name: name.to_owned(), object }
    }

    /// True if the workload selects its pods by this label. The API server rejects a workload
    /// whose template lacks a selected label.
    pub(super) fn selects(&self, key: &str) -> bool {
        let selector = &self.object["spec"]["selector"];
        // A ReplicationController and a DeploymentConfig have the labels without `matchLabels`.
        let labels = [&selector["matchLabels"], selector];
        let required = selector["matchExpressions"].as_array().into_iter().flatten();
        labels.into_iter().any(|labels| labels[key].is_string())
            || required.into_iter().any(|requirement| requirement["key"] == key)
    }

    /// True if the workload itself has this label with this value.
    pub(super) fn has_label(&self, key: &str, value: &str) -> bool {
        self.object["metadata"]["labels"][key] == value
    }
}
