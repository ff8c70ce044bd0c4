//! Owning workload of a pod.

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
    /// The workload's namespace; empty if unknown.
    pub namespace: String,
}

impl Workload {
    /// Infers the workload from a pod's own metadata, without a request to the API server.
    ///
    /// The controller in `ownerReferences` counts only for a pod with `generateName`. A
    /// `ReplicaSet`, a `ReplicationController` or a `Job` is replaced by its own owner if labels
    /// and name identify it: a `Deployment`, an Argo `Rollout`, a `DeploymentConfig` or a `CronJob`
    /// (Istio's `GetDeployMetaFromPod`).
    pub fn from_pod(pod: &Value, namespace: &str) -> Self {
        let metadata = &pod["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut workload = Self {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: text(&metadata["name"]),
            namespace: match metadata["namespace"].as_str() {
                Some(own) if !own.is_empty() => own.to_owned(),
                _ => namespace.to_owned(),
            },
        };
        let generated = metadata["generateName"].as_str().is_some_and(|name| !name.is_empty());
        if let Some(controller) = controller(metadata).filter(|_| generated) {
            workload.api_version = text(&controller["apiVersion"]);
            workload.kind = text(&controller["kind"]);
            workload.name = text(&controller["name"]);
            workload.look_behind(&metadata["labels"]);
        }
        if workload.name.is_empty() {
            workload.name = text(&metadata["name"]);
        }
        workload
    }

    /// Replaces a controller by the owner that its labels and name identify.
    fn look_behind(&mut self, labels: &Value) {
        let label = |key: &str| labels[key].as_str().filter(|value| !value.is_empty());
        match self.kind.as_str() {
            "ReplicaSet" => {
                if let Some(name) = label(POD_HASH).and_then(|hash| without(&self.name, hash)) {
                    "Deployment".clone_into(&mut self.kind);
                    self.name = name;
                } else if let Some(name) =
                    label(ROLLOUT_HASH).and_then(|hash| without(&self.name, hash))
                {
                    // Istio writes this version without its group.
                    "v1alpha1".clone_into(&mut self.api_version);
                    "Rollout".clone_into(&mut self.kind);
                    self.name = name;
                }
            }
            "ReplicationController" => {
                if let Some(name) = label("deploymentconfig") {
                    name.clone_into(&mut self.name);
                    "DeploymentConfig".clone_into(&mut self.kind);
                }
            }
            "Job" => {
                if let Some(name) = without_schedule(&self.name) {
                    self.name = name;
                    "CronJob".clone_into(&mut self.kind);
                    "batch/v1".clone_into(&mut self.api_version);
                }
            }
            _ => {}
        }
    }
}

fn controller(metadata: &Value) -> Option<&Value> {
    metadata["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)
}

/// Returns the name of the owner of a controller whose name ends with this hash. Without a `-`
/// before the hash, Istio uses the whole name.
fn without(name: &str, hash: &str) -> Option<String> {
    let start = name.strip_suffix(hash)?;
    Some(start.strip_suffix('-').unwrap_or(name).to_owned())
}

/// Returns the name of the owning `CronJob`. The names of its `Job`s end with the scheduled time in
/// minutes, which has 8 to 10 digits.
fn without_schedule(job: &str) -> Option<String> {
    let (name, due) = job.rsplit_once('-')?;
    let scheduled = (8..=10).contains(&due.len()) && due.bytes().all(|b| b.is_ascii_digit());
    (scheduled && !name.is_empty()).then(|| name.to_owned())
}

const POD_HASH: &str = "pod-template-hash";
const ROLLOUT_HASH: &str = "rollouts-pod-template-hash";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owned_by(kind: &str, name: &str, labels: &Value) -> Workload {
        let pod = json!({"metadata": {
            "generateName": format!("{name}-"), "labels": labels,
            "ownerReferences": [{"apiVersion": "x/v1", "kind": kind, "name": name, "controller": true}],
        }});
        Workload::from_pod(&pod, "ns")
    }

    #[test]
    fn owner_of_a_generated_controller_is_the_workload() {
        let deployment = owned_by("ReplicaSet", "web-5d4", &json!({"pod-template-hash": "5d4"}));
        assert_eq!((deployment.kind.as_str(), deployment.name.as_str()), ("Deployment", "web"));
        let bare = owned_by("ReplicaSet", "web-5d4", &json!({"pod-template-hash": "other"}));
        assert_eq!((bare.kind.as_str(), bare.name.as_str()), ("ReplicaSet", "web-5d4"));
        let rollout =
            owned_by("ReplicaSet", "web-9f", &json!({"rollouts-pod-template-hash": "9f"}));
        assert_eq!((rollout.kind.as_str(), rollout.name.as_str()), ("Rollout", "web"));
        assert_eq!(rollout.api_version, "v1alpha1");
        let config =
            owned_by("ReplicationController", "web-1", &json!({"deploymentconfig": "web"}));
        assert_eq!((config.kind.as_str(), config.name.as_str()), ("DeploymentConfig", "web"));
        let cron = owned_by("Job", "backup-28113120", &json!({}));
        assert_eq!((cron.kind.as_str(), cron.name.as_str()), ("CronJob", "backup"));
        assert_eq!(cron.api_version, "batch/v1");
        let job = owned_by("Job", "backup-1234567", &json!({}));
        assert_eq!((job.kind.as_str(), job.name.as_str()), ("Job", "backup-1234567"));
    }

    #[test]
    fn pod_without_generated_name_is_its_own_workload() {
        let pod = json!({"metadata": {"name": "web", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "controller": true}]}});
        let workload = Workload::from_pod(&pod, "ns");
        assert_eq!(
            (workload.kind.as_str(), workload.name.as_str(), workload.namespace.as_str()),
            ("Pod", "web", "ns")
        );
    }
}
