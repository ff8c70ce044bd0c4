//! Messages about annotations of pods and pod templates.

use documents::excerpt;

use super::cluster_state::{AnalyzedPod, ClusterState};
use super::message::{Level, Message, MessageKind};
use crate::settings::annotations::{AnnotationError, Annotations};

/// Returns a message about each annotation whose value the injector rejects.
pub(super) fn invalid(state: &ClusterState<'_>) -> Vec<Message> {
    let of_pod = |analyzed: &AnalyzedPod| {
        let (_, errors) = Annotations::from_pod(&analyzed.pod);
        let message = |error: &AnnotationError| {
            let AnnotationError { key, value, problem } = error;
            let text = format!(
                "Invalid annotation {key}: {:?} {}",
                excerpt::shorten(value),
                excerpt::shorten(problem)
            );
            Message::new(&INVALID, &analyzed.origin, text)
        };
        errors.iter().map(message).collect::<Vec<_>>()
    };
    state.pods.iter().flat_map(of_pod).collect()
}

static INVALID: MessageKind = MessageKind { code: "IST0125", level: Level::Warning };
