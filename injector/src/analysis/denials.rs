//! Messages about pods that the injector denies.

use super::cluster_state::{AnalyzedPod, ClusterState};
use super::message::{Level, Message, MessageKind, NOT_FOUND};
use crate::inject::error::InjectError;
use crate::kubernetes::pod::find_proxy;
use crate::overlay::error::OverlayError;
use crate::settings::annotations::Annotations;

/// Returns a message about each annotation whose value the injector rejects: an error if it denies
/// the pod.
pub(super) fn annotations(state: &ClusterState<'_>) -> Vec<Message> {
    let mut messages = Vec::new();
    for analyzed in state.pods {
        let (kind, errors) = match denial(state, analyzed) {
            Some(InjectError::Annotations(errors)) => (&DENIED_ANNOTATION, errors),
            _ => (&INVALID_ANNOTATION, Annotations::from_pod(&analyzed.pod).1),
        };
        let message = |error| Message::new(kind, &analyzed.origin, format!("Invalid {error}"));
        messages.extend(errors.iter().map(message));
    }
    messages
}

/// Returns a message about each pod that the injector denies for another reason.
pub(super) fn pods(state: &ClusterState<'_>) -> Vec<Message> {
    let message = |analyzed: &AnalyzedPod| {
        let error = denial(state, analyzed)?;
        let kind = match &error {
            InjectError::Annotations(_) => return None,
            InjectError::Overlay(OverlayError::NotFound { .. }) => &NOT_FOUND,
            _ => &DENIED,
        };
        let text = format!("The injector denies the pod: {error}");
        Some(Message::new(kind, &analyzed.origin, text))
    };
    state.pods.iter().filter_map(message).collect()
}

/// Returns the error with which the first injector that the API server would call denies the pod.
/// `None` for a pod that runs with a sidecar.
fn denial(
    state: &ClusterState<'_>,
    AnalyzedPod { origin, pod, running }: &AnalyzedPod,
) -> Option<InjectError> {
    if *running && find_proxy(pod).is_some() {
        return None;
    }
    let injector = state.built_in.or_else(|| {
        let labels = state.labels(&origin.namespace);
        let mut configurations = state.injectors.configurations.iter();
        let first = configurations.find(|one| one.asks(&labels, pod).is_some())?;
        state.injectors.known.get(&first.revision)
    });
    injector?.outcome(pod).err()
}

static INVALID_ANNOTATION: MessageKind = MessageKind { code: "IST0125", level: Level::Warning };
static DENIED_ANNOTATION: MessageKind = MessageKind { code: "IST0125", level: Level::Error };
static DENIED: MessageKind = MessageKind { code: "IST0106", level: Level::Error };
