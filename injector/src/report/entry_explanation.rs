//! Decisions of single webhook entries on a pod.

use serde::Serialize;
use serde_json::Value;

use super::explanation::Labels;
use crate::kubernetes::label_selector::LabelSelector;
use crate::kubernetes::webhook_configuration::Hook;

/// Decision of one webhook entry on a pod, and the selector or condition that decided.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct EntryExplanation {
    /// Name of the entry.
    pub name: String,
    /// True if the API server calls the injector by this entry.
    pub selected: bool,
    /// Reason.
    pub reason: String,
}

impl EntryExplanation {
    /// Explains an entry. `pod` is the pod as the API server passes it to the configuration.
    pub(super) fn new(namespace_labels: &Value, hook: &Hook, pod: &Value) -> Self {
        let selected = hook.asks(namespace_labels, pod);
        let labels = Labels { namespace: namespace_labels, pod: &pod["metadata"]["labels"] };
        let reason = if selected { labels.asked(hook) } else { not_selected(&labels, hook, pod) };
        Self { name: hook.name.clone(), selected, reason }
    }
}

fn not_selected(labels: &Labels<'_>, hook: &Hook, pod: &Value) -> String {
    if let Some(reason) = labels.prevented(hook) {
        return reason;
    }
    let namespace = unmet("namespace", &hook.namespace_selector, labels.namespace);
    if let Some(reason) = namespace.or_else(|| unmet("pod", &hook.object_selector, labels.pod)) {
        return reason;
    }
    let selected = labels.selected(hook);
    match hook.unmet_condition(pod) {
        Some((name, cel)) => {
            format!("{selected}, but match condition {name} does not hold: {cel}")
        }
        None => selected,
    }
}

/// Describes the first requirement that the labels of an object do not meet; `None` if they meet
/// all.
fn unmet(object: &str, selector: &LabelSelector, labels: &Value) -> Option<String> {
    if let Some(problem) = selector.problem() {
        return Some(format!("The selector of the {object} is invalid: {problem}"));
    }
    let requirement = selector.requirements().find(|requirement| !requirement.holds(labels))?;
    let key = &requirement.key;
    Some(match labels[key].as_str() {
        Some(value) => format!("Needs a {object} with {requirement}; it has {key}={value}"),
        None => format!("Needs a {object} with {requirement}; it has no label {key}"),
    })
}
