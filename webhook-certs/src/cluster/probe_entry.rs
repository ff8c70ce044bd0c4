//! Webhook entries that review the trust probe.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{ParseExpressionError, Selector, SelectorExt};

use super::entries::{is_of_another_revision, is_ours};
use super::probe_result::{PROBE_ENTRY, PROBE_LABEL};
use crate::options::Options;

/// Labels of the probe's object.
pub(super) fn probe_labels(options: &Options) -> BTreeMap<String, String> {
    BTreeMap::from([(PROBE_LABEL.to_owned(), options.revision().to_owned())])
}

/// Returns the entries for the probe that call our Service: the name of an entry that reviews the
/// probe and fails closed, or else an error that says what is wrong with it.
///
/// The name is the only known label of the namespace. Other labels and `matchConditions` count as
/// matching.
pub(super) fn probe_entries(
    configuration: &MutatingWebhookConfiguration,
    options: &Options,
) -> Vec<Result<String, String>> {
    if is_of_another_revision(configuration, options) {
        return Vec::new();
    }
    let webhooks = configuration.webhooks.iter().flatten();
    webhooks
        .filter(|webhook| webhook.name.starts_with(PROBE_ENTRY) && is_ours(webhook, options))
        .map(|webhook| match problem(webhook, options) {
            None => Ok(webhook.name.clone()),
            Some(wrong) => Err(format!("entry `{}`: {wrong}", webhook.name)),
        })
        .collect()
}

fn problem(webhook: &MutatingWebhook, options: &Options) -> Option<String> {
    if webhook.failure_policy.as_deref().is_some_and(|policy| policy != "Fail") {
        return Some("its failurePolicy is not Fail, so failures are hidden".to_owned());
    }
    if !webhook.rules.iter().flatten().any(matches_creation) {
        return Some("none of its rules matches the creation of ConfigMaps".to_owned());
    }
    let labels = probe_labels(options);
    let of_object = webhook.object_selector.clone().unwrap_or_default();
    let name = BTreeMap::from([(NAMESPACE_NAME.to_owned(), options.namespace.clone())]);
    let of_namespace = webhook.namespace_selector.clone().unwrap_or_default();
    [
        leaves_out("objectSelector", of_object, &labels),
        leaves_out("namespaceSelector", about(of_namespace, NAMESPACE_NAME), &name),
    ]
    .into_iter()
    .find_map(|problem| problem.unwrap_or_else(|error| Some(error.to_string())))
}

fn matches_creation(rule: &RuleWithOperations) -> bool {
    let has = |list: &Option<Vec<String>>, values: &[&str]| {
        list.iter().flatten().any(|value| values.contains(&value.as_str()))
    };
    has(&rule.operations, &["CREATE", "*"])
        && has(&rule.api_groups, &["", "*"])
        && has(&rule.api_versions, &["v1", "*"])
        && has(&rule.resources, &["configmaps", "*", "*/*"])
        && rule.scope.as_deref() != Some("Cluster")
}

/// Reduces a selector to the terms about one label.
fn about(mut selector: LabelSelector, key: &str) -> LabelSelector {
    if let Some(labels) = &mut selector.match_labels {
        labels.retain(|label, _| label == key);
    }
    if let Some(expressions) = &mut selector.match_expressions {
        expressions.retain(|expression| expression.key == key);
    }
    selector
}

fn leaves_out(
    field: &str,
    selector: LabelSelector,
    labels: &BTreeMap<String, String>,
) -> Result<Option<String>, ParseExpressionError> {
    let selector = Selector::try_from(selector)?;
    let has: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Ok((!selector.matches(labels))
        .then(|| format!("its {field} `{selector}` does not match `{}`", has.join(","))))
}

/// Label of every namespace, with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    type Change = fn(&mut Value);

    fn options() -> Options {
        Options { revision: "canary".to_owned(), ..Options::default() }
    }

    fn configuration(change: impl FnOnce(&mut Value)) -> MutatingWebhookConfiguration {
        let mut entry = json!({
            "name": "probe.example",
            "clientConfig": {"service": {"name": "sidecar-injector", "namespace": "istio-system"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                       "resources": ["configmaps"], "scope": "Namespaced"}],
            "failurePolicy": "Fail",
            "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: "istio-system", "other": "x"}},
            "objectSelector": {"matchExpressions": [
                {"key": PROBE_LABEL, "operator": "In", "values": ["canary"]}]},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        });
        change(&mut entry);
        let configuration = json!({"metadata": {"name": "a"}, "webhooks": [entry]});
        serde_json::from_value(configuration).unwrap()
    }

    #[test]
    fn entries_that_do_not_review_the_probe_are_errors() {
        let found = |change: Change| probe_entries(&configuration(change), &options());
        let good: [Change; 4] = [
            |_| (),
            |entry| entry["rules"][0]["resources"] = json!(["*"]),
            |entry| entry["failurePolicy"] = Value::Null,
            |entry| {
                entry["objectSelector"] = Value::Null;
                entry["namespaceSelector"] = Value::Null;
            },
        ];
        for change in good {
            assert_eq!(found(change), [Ok("probe.example".to_owned())]);
        }
        let bad: [(Change, &str); 7] = [
            (|entry| entry["failurePolicy"] = json!("Ignore"), "failurePolicy is not Fail"),
            (|entry| entry["rules"][0]["operations"] = json!(["UPDATE"]), "none of its rules"),
            (|entry| entry["rules"][0]["resources"] = json!(["pods"]), "none of its rules"),
            (|entry| entry["rules"][0]["scope"] = json!("Cluster"), "none of its rules"),
            (
                // An entry of an earlier version.
                |entry| {
                    entry["objectSelector"]["matchExpressions"][0]["values"] = json!(["true"]);
                },
                "objectSelector `outrigger.io/probe in (true)` does not match `outrigger.io/probe=canary`",
            ),
            (
                // An entry of the component `dormant`.
                |entry| {
                    entry["objectSelector"] = json!({"matchExpressions": [
                        {"key": "a", "operator": "Exists"},
                        {"key": "a", "operator": "DoesNotExist"}]});
                },
                "objectSelector `a,!a` does not match",
            ),
            (
                |entry| entry["namespaceSelector"]["matchLabels"][NAMESPACE_NAME] = json!("else"),
                "namespaceSelector `kubernetes.io/metadata.name=else` does not match `kubernetes.io/metadata.name=istio-system`",
            ),
        ];
        for (change, part) in bad {
            let found = found(change);
            let [Err(problem)] = found.as_slice() else { panic!("{part}: {found:?}") };
            let is_named = problem.starts_with("entry `probe.example`: ");
            assert!(is_named && problem.contains(part), "{problem}");
        }
        assert!(found(|entry| entry["clientConfig"]["service"]["name"] = json!("b")).is_empty());
        let mut other = configuration(|_| ());
        other.metadata.labels = Some([("istio.io/rev".to_owned(), "blue".to_owned())].into());
        assert!(probe_entries(&other, &options()).is_empty(), "it is another revision's");
    }
}
