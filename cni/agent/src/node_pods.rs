//! Pods of this node, kept up to date by a watch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Client};
use tokio::sync::Notify;

use crate::node_pod::{self, NodePod};
use cni::pod::PodIdentity;
use cni::question::Question;

/// Pods of this node.
#[derive(Debug, Default)]
pub struct NodePods {
    /// Namespaces whose pods the plugin does not capture.
    excluded: Vec<String>,
    state: Mutex<State>,
    /// Wakes up the reconciler after each change.
    pub changed: Notify,
}

/// Pod of the node, as far as the agent has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownPod {
    /// Its capture is the plugin's task.
    Captured(Box<NodePod>),
    /// It is left as it is.
    Other(PodIdentity),
}

#[derive(Debug, Default)]
struct State {
    by_uid: BTreeMap<String, KnownPod>,
    /// Pods of a list that is not complete yet.
    listed: BTreeSet<String>,
    is_complete: bool,
}

impl KnownPod {
    /// Reads a pod.
    pub fn read(pod: &Pod) -> Self {
        NodePod::read(pod).map_or_else(
            || Self::Other(node_pod::identity(pod)),
            |pod| Self::Captured(Box::new(pod)),
        )
    }

    /// Returns the pod's namespace, name, and the UID that the runtime passes.
    pub fn identity(&self) -> &PodIdentity {
        match self {
            Self::Captured(pod) => &pod.identity,
            Self::Other(identity) => identity,
        }
    }
}

impl NodePods {
    /// Creates the pods of a node before its first list, without those of namespaces.
    pub fn without(excluded: Vec<String>) -> Self {
        Self { excluded, ..Self::default() }
    }

    /// Returns the pod of a question. The UID decides if the runtime passes one.
    pub fn find(&self, question: &Question) -> Option<KnownPod> {
        let state = self.state();
        let is_asked = |pod: &&KnownPod| {
            let identity = pod.identity();
            identity.namespace == question.namespace
                && identity.name == question.name
                && (question.uid.is_empty() || identity.uid == question.uid)
        };
        state.by_uid.values().find(is_asked).cloned()
    }

    /// Returns the pods that the plugin captures and that have not ended.
    pub fn captured(&self) -> Vec<NodePod> {
        let state = self.state();
        let captured = state.by_uid.values().filter_map(|pod| match pod {
            KnownPod::Captured(pod) if !pod.has_ended => Some(&**pod),
            _ => None,
        });
        captured.filter(|pod| !self.excluded.contains(&pod.identity.namespace)).cloned().collect()
    }

    /// True after the first complete list.
    pub fn is_complete(&self) -> bool {
        self.state().is_complete
    }

    fn apply(&self, event: Event<Pod>) {
        let mut state = self.state();
        match event {
            Event::Init => state.listed.clear(),
            Event::InitApply(pod) => {
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                state.listed.insert(uid.clone());
                state.by_uid.insert(uid, KnownPod::read(&pod));
            }
            Event::InitDone => {
                let State { by_uid, listed, is_complete } = &mut *state;
                by_uid.retain(|uid, _| listed.contains(uid));
                listed.clear();
                *is_complete = true;
            }
            Event::Apply(pod) => {
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                state.by_uid.insert(uid, KnownPod::read(&pod));
            }
            Event::Delete(pod) => {
                state.by_uid.remove(&pod.metadata.uid.unwrap_or_default());
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change leaves the state half written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps `pods` up to date, for as long as the program runs.
pub async fn watch_pods(client: Client, node: &str, pods: &NodePods) {
    let config =
        watcher::Config::default().fields(&format!("spec.nodeName={node}")).page_size(PAGE);
    let events = watch(Api::<Pod>::all(client), config).default_backoff();
    let mut events = std::pin::pin!(events);
    loop {
        match events.try_next().await {
            Ok(Some(event)) => pods.apply(event),
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(
                    "watching the pods of node {node}: {}",
                    kube_access::with_causes(&error)
                );
            }
        }
    }
}

/// Pods in memory at a time while they are listed.
const PAGE: u32 = 10;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str) -> Pod {
        let metadata = json!({"name": name, "namespace": "shop", "uid": format!("u-{name}")});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": []}})).unwrap()
    }

    #[test]
    fn pods_of_excluded_namespaces_are_not_captured() {
        let pods = NodePods::without(vec!["kube-system".to_owned()]);
        for namespace in ["kube-system", "shop"] {
            let pod = json!({
                "metadata": {"name": "web", "namespace": namespace, "uid": namespace, "annotations": {
                    "sidecar.istio.io/status": "{}", "sidecar.outrigger.io/capture": "{}"}},
                "spec": {"containers": []},
            });
            pods.apply(Event::Apply(serde_json::from_value(pod).unwrap()));
        }
        let captured = pods.captured();
        let namespaces: Vec<_> = captured.iter().map(|pod| &pod.identity.namespace).collect();
        assert_eq!(namespaces, ["shop"]);
    }

    fn question(name: &str, uid: &str) -> Question {
        Question { namespace: "shop".into(), name: name.into(), uid: uid.into() }
    }

    #[test]
    fn list_replaces_the_pods_that_are_gone() {
        let pods = NodePods::default();
        pods.apply(Event::Apply(pod("a")));
        assert!(!pods.is_complete());
        for event in [Event::Init, Event::InitApply(pod("b")), Event::InitDone] {
            pods.apply(event);
        }
        assert!(pods.is_complete());
        assert_eq!(pods.find(&question("a", "")), None);
        assert!(pods.find(&question("b", "u-b")).is_some());
        assert_eq!(pods.find(&question("b", "other")), None, "a pod of the same name");
        pods.apply(Event::Delete(pod("b")));
        assert_eq!(pods.find(&question("b", "")), None);
    }
}
