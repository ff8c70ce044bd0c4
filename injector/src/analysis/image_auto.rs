//! Messages about pods that need the injector to set an image.

use serde_json::Value;

use super::cluster_state::{AnalyzedPod, ClusterState};
use super::message::{Level, Message, MessageKind};
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS};

/// Returns the messages about pods and workloads with `image: auto` that no webhook selects.
pub(super) fn not_injected(state: &ClusterState<'_>) -> Vec<Message> {
    let message = |analyzed: &AnalyzedPod| {
        let AnalyzedPod { origin, pod, .. } = analyzed;
        let labels = state.labels(&origin.namespace);
        let configurations = state.injectors.configurations;
        if !has_image_auto(pod) || configurations.iter().any(|one| one.asks(&labels, pod).is_some())
        {
            return None;
        }
        // A pod cannot start; a new pod of a workload would not.
        let kind = if origin.kind == "Pod" { &ERROR } else { &WARNING };
        let text = format!(
            "{} {} contains `image: auto` but does not match any Istio injection webhook \
             selectors.",
            origin.kind, origin.name
        );
        Some(Message::new(kind, origin, text))
    };
    state.pods.iter().filter_map(message).collect()
}

fn has_image_auto(pod: &Value) -> bool {
    let lists = [CONTAINERS, INIT_CONTAINERS].into_iter();
    let mut containers = lists.flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    containers.any(|container| container["image"] == "auto")
}

static WARNING: MessageKind = MessageKind { code: "IST0146", level: Level::Warning };
static ERROR: MessageKind = MessageKind { code: "IST0147", level: Level::Error };
