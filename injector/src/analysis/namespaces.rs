//! Messages about the injection labels of namespaces.

use serde_json::{Value, json};

use super::cluster_state::{AnalyzedNamespace, ClusterState};
use super::message::{Level, Message, MessageKind, MessageOrigin};
use crate::inject::policy::is_ignored;
use crate::istio::labels::REVISION;

/// Returns the messages about namespaces that are not injected, are injected without a label, or
/// have two labels.
pub(super) fn labels(state: &ClusterState<'_>) -> Vec<Message> {
    let namespaces = state.namespaces.iter();
    let analyzed =
        namespaces.filter(|(name, namespace)| is_analyzed(state, name, &namespace.labels));
    analyzed.filter_map(|(name, namespace)| of_namespace(state, name, namespace)).collect()
}

/// True for a namespace with pods that injection may concern.
pub(super) fn is_analyzed(state: &ClusterState<'_>, name: &str, labels: &Value) -> bool {
    !is_ignored(name) && name != state.control_plane && labels[MODE] != "ambient"
}

fn of_namespace(
    state: &ClusterState<'_>,
    name: &str,
    AnalyzedNamespace { origin, labels }: &AnalyzedNamespace,
) -> Option<Message> {
    let is_set = |key: &str| labels[key].as_str().is_some_and(|value| !value.is_empty());
    match (is_set(INJECTION), is_set(REVISION)) {
        (true, true) => {
            let text = format!(
                "The namespace has more than one injection label, {INJECTION} and {REVISION}; \
                 {INJECTION} decides. Run 'kubectl label namespace {name} {INJECTION}-' or \
                 'kubectl label namespace {name} {REVISION}-'."
            );
            Some(Message::new(&SEVERAL_LABELS, origin, text))
        }
        (false, false) => {
            let pod = json!({"metadata": {"namespace": name}, "spec": {"containers": []}});
            let configurations = state.injectors.configurations;
            let by_default = configurations.iter().any(|one| one.asks(labels, &pod).is_some());
            Some(if by_default { injected_by_default(origin) } else { not_injected(name, origin) })
        }
        (true, false) | (false, true) => None,
    }
}

fn not_injected(name: &str, origin: &MessageOrigin) -> Message {
    let text = format!(
        "The namespace is not enabled for Istio injection. Run 'kubectl label namespace {name} \
         {INJECTION}=enabled' to enable it, or 'kubectl label namespace {name} \
         {INJECTION}=disabled' to explicitly mark it as not needing injection."
    );
    Message::new(&NOT_INJECTED, origin, text)
}

fn injected_by_default(origin: &MessageOrigin) -> Message {
    let text = "is enabled for Istio injection, as Istio is configured to select all namespaces \
                by default.";
    Message::new(&INJECTED_BY_DEFAULT, origin, text.to_owned())
}

static NOT_INJECTED: MessageKind = MessageKind { code: "IST0102", level: Level::Info };
static SEVERAL_LABELS: MessageKind = MessageKind { code: "IST0123", level: Level::Warning };
static INJECTED_BY_DEFAULT: MessageKind = MessageKind { code: "IST0148", level: Level::Info };

pub(super) const INJECTION: &str = "istio-injection";
const MODE: &str = "istio.io/dataplane-mode";
