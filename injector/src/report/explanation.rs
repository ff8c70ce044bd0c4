//! Explanations of why each webhook configuration has a pod injected or not, in the words of
//! `istioctl`'s `check-inject`.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::entry_explanation::EntryExplanation;
use super::injected_parts::InjectedParts;
use super::inspection::{Answer, Injectors, WebhookAnswer, without_status};
use crate::kubernetes::label_selector::{LabelSelector, Requirement};
use crate::kubernetes::webhook_configuration::{Hook, HookConfiguration};

/// Decision of one webhook configuration on a pod, and its reason.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Name of the configuration.
    pub webhook: String,
    /// Revision that it calls.
    pub revision: String,
    /// True if it has the pod injected.
    pub injected: bool,
    /// Reason.
    pub reason: String,
    /// Decisions of its entries, in their order.
    pub entries: Vec<EntryExplanation>,
    /// Content that it adds to the pod; `None` if it does not inject the pod, or if the
    /// configuration of its revision is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub injection: Option<InjectedParts>,
    /// The pod after it.
    #[serde(skip)]
    pub pod: Option<Value>,
}

/// Returns one explanation for each configuration, in the order of their names.
pub fn explain(
    injectors: &Injectors<'_>,
    namespace_labels: &Value,
    pod: &Value,
) -> Vec<Explanation> {
    let mut asked = injectors.ask(namespace_labels, pod).into_iter().peekable();
    let labels = Labels { namespace: namespace_labels, pod: &pod["metadata"]["labels"] };
    // The API server calls each configuration with the pod as changed by the ones before it.
    let mut seen = without_status(pod);
    let mut explanations = Vec::new();
    for configuration in injectors.configurations {
        let hooks = configuration.hooks.iter();
        let entries =
            hooks.map(|hook| EntryExplanation::new(namespace_labels, hook, &seen)).collect();
        let asked = asked.next_if(|asked| std::ptr::eq(asked.configuration, configuration));
        let (injected, reason) = match &asked {
            Some(asked) => labels.answered(asked),
            None => (false, labels.not_asked(configuration)),
        };
        let mut explanation = Explanation {
            webhook: configuration.name.clone(),
            revision: configuration.revision.clone(),
            injected,
            reason,
            entries,
            injection: None,
            pod: None,
        };
        if let Some(WebhookAnswer { answer: Answer::Inject(injection), .. }) = asked {
            explanation.injection = Some(InjectedParts::new(&injection));
            explanation.pod = Some(injection.pod.clone());
            seen = Cow::Owned(injection.pod);
        }
        explanations.push(explanation);
    }
    explanations
}

/// Returns the number of entries by which the pod is injected. More than one is an error in the
/// webhook configurations.
pub fn injecting_entries(explanations: &[Explanation]) -> usize {
    let injecting = explanations.iter().filter(|one| one.injected);
    injecting.map(|one| one.entries.iter().filter(|entry| entry.selected).count()).sum()
}

/// Labels of a pod and of its namespace.
pub(super) struct Labels<'a> {
    pub(super) namespace: &'a Value,
    pub(super) pod: &'a Value,
}

impl Labels<'_> {
    fn answered(&self, asked: &WebhookAnswer<'_>) -> (bool, String) {
        let reason = self.asked(asked.hook);
        match &asked.answer {
            Answer::Inject(_) => (true, reason),
            Answer::Skip(skip) => (false, format!("{reason}, but {skip}")),
            Answer::Deny(deny) => (false, format!("{reason}, but {deny}")),
            Answer::Unknown => {
                (true, format!("{reason}; the configuration of its revision is not known"))
            }
        }
    }

    /// Describes the labels by which an entry selects the pod, and its unsupported conditions.
    pub(super) fn asked(&self, hook: &Hook) -> String {
        let mut reason = self.selected(hook);
        let conditions = hook.unknown_conditions();
        let conditions: Vec<_> = conditions.map(|(name, cel)| format!("{name} ({cel})")).collect();
        if !conditions.is_empty() {
            reason.truncate(reason.trim_end_matches('.').len());
            reason
                .push_str("; if its match conditions hold, which only the API server evaluates: ");
            reason.push_str(&conditions.join(", "));
        }
        reason
    }

    /// Describes the labels by which an entry selects the pod.
    pub(super) fn selected(&self, hook: &Hook) -> String {
        let namespace = selected_by(&hook.namespace_selector, self.namespace);
        let pod = selected_by(&hook.object_selector, self.pod);
        match (namespace, pod) {
            (Some(namespace), Some(pod)) => {
                format!("Namespace label {namespace} matches, and pod label {pod} matches")
            }
            (Some(namespace), None) => format!("Namespace label {namespace} matches"),
            (None, Some(pod)) => format!("Pod label {pod} matches"),
            (None, None) => {
                let name = self.namespace[NAME].as_str().unwrap_or_default();
                format!(
                    "Namespace label {NAME}={name} matches (Automatic injection is enabled in all \
                     namespaces)."
                )
            }
        }
    }

    fn not_asked(&self, configuration: &HookConfiguration) -> String {
        if configuration.is_deactivated() {
            return "The injection webhook is deactivated, and will never match labels.".to_owned();
        }
        let mut prevented = configuration.hooks.iter().filter_map(|hook| self.prevented(hook));
        if let Some(reason) = prevented.next() {
            return reason;
        }
        // The labels match, so only a match condition can exclude the pod.
        let is_selected = |hook: &&Hook| {
            hook.namespace_selector.admits(self.namespace) && hook.object_selector.admits(self.pod)
        };
        if let Some(hook) = configuration.hooks.iter().find(is_selected) {
            return format!(
                "{}, but a match condition of {} does not hold",
                self.selected(hook),
                hook.name
            );
        }
        let wanted = |selector: fn(&Hook) -> &LabelSelector| {
            let mut wanted = Vec::new();
            for requirement in
                configuration.hooks.iter().flat_map(|hook| selector(hook).requirements())
            {
                if requirement.operator == "In" {
                    let Requirement { key, values, .. } = requirement;
                    wanted.extend(values.iter().map(|value| format!("{key}={value}")));
                }
            }
            wanted.join(", ")
        };
        format!(
            "No matching namespace labels ({}) or pod labels ({})",
            wanted(|hook| &hook.namespace_selector),
            wanted(|hook| &hook.object_selector)
        )
    }

    /// Returns the message about a label that excludes the pod, if the entry's other selector
    /// matches.
    pub(super) fn prevented(&self, hook: &Hook) -> Option<String> {
        let by_namespace = hook.namespace_selector.admits(self.namespace);
        let by_pod = hook.object_selector.admits(self.pod);
        if by_namespace && !by_pod {
            let (key, value) = kept_away_by(&hook.object_selector, self.pod)?;
            return Some(format!("Pod has {key}={value} label, preventing injection"));
        }
        let (key, value) = kept_away_by(&hook.namespace_selector, self.namespace)
            .filter(|_| by_pod && !by_namespace)?;
        // A namespace of another revision prevents nothing, because that revision injects its pods.
        let prevents = key == NAME || (key == INJECTION && value != "enabled");
        prevents.then(|| format!("Namespace has {key}={value} label, preventing injection"))
    }
}

/// Returns the label that a selector requires; `None` if it only requires labels to be absent or to
/// differ.
fn selected_by(selector: &LabelSelector, labels: &Value) -> Option<String> {
    let mut requirements = selector.requirements();
    let requirement = requirements.find(|one| matches!(one.operator.as_str(), "In" | "Exists"))?;
    let value = labels[&requirement.key].as_str().unwrap_or_default();
    Some(format!("{}={value}", requirement.key))
}

/// Returns the label that a selector requires to be absent or to differ, and that is set.
fn kept_away_by<'a>(selector: &LabelSelector, labels: &'a Value) -> Option<(String, &'a str)> {
    let mut requirements = selector.requirements();
    let requirement = requirements.find(|one| {
        matches!(one.operator.as_str(), "NotIn" | "DoesNotExist") && !one.holds(labels)
    })?;
    let value = labels[&requirement.key].as_str().unwrap_or_default();
    Some((requirement.key, value))
}

const NAME: &str = "kubernetes.io/metadata.name";
const INJECTION: &str = "istio-injection";
