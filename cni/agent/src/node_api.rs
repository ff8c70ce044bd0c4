//! Writes of the node agent to the API server.

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client};
use kube_access::with_causes;
use serde_json::json;

use crate::node_pod::NodePod;

/// API server, as far as the node agent writes to it.
#[derive(Clone)]
pub struct NodeApi {
    client: Client,
    recorder: Recorder,
}

/// Content of an Event about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// Reason, in upper camel case.
    pub reason: &'static str,
    /// Message.
    pub note: String,
    is_warning: bool,
}

impl PodEvent {
    /// Creates an Event of type Normal.
    pub fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Self { reason, note: note.into(), is_warning: false }
    }

    /// Creates an Event of type Warning.
    pub fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Self { reason, note: note.into(), is_warning: true }
    }
}

impl NodeApi {
    /// Creates the access; `instance` names this agent in Events.
    pub fn new(client: Client, instance: String) -> Self {
        let reporter = Reporter { controller: CONTROLLER.to_owned(), instance: Some(instance) };
        Self { recorder: Recorder::new(client.clone(), reporter), client }
    }

    /// Records an Event about a pod. Errors are only logged: the log has said the same.
    pub async fn record(&self, pod: &NodePod, event: &PodEvent) {
        let event = Event {
            type_: if event.is_warning { EventType::Warning } else { EventType::Normal },
            reason: event.reason.to_owned(),
            note: Some(event.note.chars().take(LONGEST_NOTE).collect()),
            action: "Capture".to_owned(),
            secondary: None,
        };
        let pod_reference = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(pod.identity.namespace.clone()),
            name: Some(pod.identity.name.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectReference::default()
        };
        if let Err(error) = self.recorder.publish(&event, &pod_reference).await {
            tracing::info!("an Event about pod {} was not written: {}", pod.identity, with_causes(&error));
        }
    }

    /// Deletes this pod, and no later one of its name, nor one that has changed since.
    pub async fn delete(&self, pod: &NodePod) -> Result<(), String> {
        let preconditions = Preconditions {
            uid: Some(pod.uid.clone()),
            resource_version: Some(pod.resource_version.clone()),
        };
        let parameters = DeleteParams::default().preconditions(preconditions);
        let deleted = self.pods(pod).delete(&pod.identity.name, &parameters).await;
        deleted.map(drop).map_err(|error| with_causes(&error))
    }

    /// Labels the pod.
    pub async fn label(&self, pod: &NodePod, key: &str, value: &str) -> Result<(), String> {
        let patch = json!({"metadata": {"uid": pod.uid, "labels": {key: value}}});
        let (name, parameters) = (&pod.identity.name, PatchParams::default());
        let patched = self.pods(pod).patch_status(name, &parameters, &Patch::Merge(&patch)).await;
        patched.map(drop).map_err(|error| with_causes(&error))
    }

    fn pods(&self, pod: &NodePod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.identity.namespace)
    }
}

impl std::fmt::Debug for NodeApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeApi").finish_non_exhaustive()
    }
}

const CONTROLLER: &str = "outrigger.io/install-cni";
/// Longest note that the API server accepts, in bytes; characters have at most four.
const LONGEST_NOTE: usize = 256;
