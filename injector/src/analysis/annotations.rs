//! Messages about annotations of pods and pod templates.

use super::cluster_state::ClusterState;
use super::message::{Level, Message, MessageKind};
use crate::settings::annotations::Annotations;

/// Returns a message about each annotation whose value the injector rejects.
pub(super) fn invalid(state: &ClusterState<'_>) -> Vec<Message> {
    let mut messages = Vec::new();
    for analyzed in state.pods {
        let (_, errors) = Annotations::from_pod(&analyzed.pod);
        let message = |error| Message::new(&INVALID, &analyzed.origin, format!("Invalid {error}"));
        messages.extend(errors.iter().map(message));
    }
    messages
}

static INVALID: MessageKind = MessageKind { code: "IST0125", level: Level::Warning };
