//! Writes of the node agent to the API server.

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client};
use kube_access::{event_note, with_causes};
use serde_json::json;

use crate::node_pod::NodePod;

/// API server, as far as the node agent writes to it.
#[derive(Clone)]
pub struct NodeApi {
    client: Client,
    recorder: Recorder,
    node: String,
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
    /// Creates the access for a node.
    pub fn new(client: Client, node: String) -> Self {
        let reporter = Reporter { controller: CONTROLLER.to_owned(), instance: Some(node.clone()) };
        Self { recorder: Recorder::new(client.clone(), reporter), client, node }
    }

    /// Records an Event about a pod. Errors are only logged: the log has said the same.
    pub async fn record(&self, pod: &NodePod, event: &PodEvent) {
        let pod = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(pod.identity.namespace.clone()),
            name: Some(pod.identity.name.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectReference::default()
        };
        self.publish(&pod, event).await;
    }

    /// Records a warning about the configuration of the node.
    pub async fn record_of_node(&self, note: &str) {
        let node = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(self.node.clone()),
            // By this value, kubectl describe finds the Events of a node.
            uid: Some(self.node.clone()),
            ..ObjectReference::default()
        };
        self.publish(&node, &PodEvent::warning(OVERWRITTEN, note)).await;
    }

    async fn publish(&self, regarding: &ObjectReference, event: &PodEvent) {
        let published = Event {
            type_: if event.is_warning { EventType::Warning } else { EventType::Normal },
            reason: event.reason.to_owned(),
            note: Some(event_note(&event.note).to_owned()),
            action: "Capture".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&published, regarding).await {
            tracing::info!("Event {}: not written: {}", event.reason, with_causes(&error));
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

    /// Removes the taint by which new nodes keep pods away until the plugin is installed. True if the
    /// node had it.
    pub async fn remove_taint(&self) -> Result<bool, String> {
        let api: Api<Node> = Api::all(self.client.clone());
        let node = api.get(&self.node).await.map_err(|error| with_causes(&error))?;
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        let kept: Vec<_> = taints.iter().filter(|taint| taint.key != NOT_READY).collect();
        if kept.len() == taints.len() {
            return Ok(false);
        }
        // The version keeps taints that others have changed meanwhile.
        let version = node.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": kept}});
        let patched = api.patch(&self.node, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.map(|_| true).map_err(|error| with_causes(&error))
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

/// Istio's taint of a node without the plugin.
pub(crate) const NOT_READY: &str = "cni.istio.io/not-ready";
/// Reason of the Event about a configuration that another program undoes.
pub(crate) const OVERWRITTEN: &str = "CNIConfigurationOverwritten";
const CONTROLLER: &str = "outrigger.io/install-cni";
