//! Messages about labels that name a revision which does not exist.

use std::collections::BTreeSet;

use serde_json::Value;

use super::cluster_state::ClusterState;
use super::message::{Message, MessageOrigin, NOT_FOUND};
use super::namespaces::{INJECTION, is_analyzed};
use crate::inject::policy::is_ignored;
use crate::istio::labels::REVISION;
use crate::kubernetes::pod::find_proxy;

/// Returns a message about each namespace and pod whose label decides, and names neither a revision
/// nor a tag. Files alone do not tell which exist.
pub(super) fn unknown(state: &ClusterState<'_>) -> Vec<Message> {
    if state.built_in.is_some() {
        return Vec::new();
    }
    let configurations = state.injectors.configurations.iter();
    let known: BTreeSet<&str> = configurations
        .flat_map(|one| [Some(one.revision.as_str()), one.tag.as_deref()])
        .flatten()
        .collect();
    let missing = |labels: &Value, origin: &MessageOrigin| {
        let revision = label(labels, REVISION).filter(|revision| !known.contains(revision))?;
        let known = known.iter().copied().collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "there are none".to_owned() } else { known };
        let text = format!(
            "Referenced revision not found: {revision:?}. No webhook injects by this label; known \
             revisions and tags: {known}"
        );
        Some(Message::new(&NOT_FOUND, origin, text))
    };
    let namespaces = state.namespaces.iter().filter(|(name, namespace)| {
        is_analyzed(state, name, &namespace.labels) && label(&namespace.labels, INJECTION).is_none()
    });
    let of_namespaces = namespaces.filter_map(|(_, one)| missing(&one.labels, &one.origin));
    let pods = state.pods.iter().filter(|one| {
        let namespace = state.labels(&one.origin.namespace);
        let is_injected = one.running && find_proxy(&one.pod).is_some();
        !is_ignored(&one.origin.namespace)
            && !is_injected
            && [INJECTION, REVISION].into_iter().all(|key| label(&namespace, key).is_none())
    });
    let of_pods = pods.filter_map(|one| missing(&one.pod["metadata"]["labels"], &one.origin));
    of_namespaces.chain(of_pods).collect()
}

/// Returns the value of a label, if it is not empty.
fn label<'a>(labels: &'a Value, key: &str) -> Option<&'a str> {
    labels[key].as_str().filter(|value| !value.is_empty())
}
