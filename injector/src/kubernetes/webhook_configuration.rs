//! Webhook configurations that call injectors.

use std::collections::BTreeMap;

use documents::nulls::or_default;
use hyper::Uri;
use serde::Deserialize;
use serde_json::Value;

use crate::istio::labels::REVISION;
use crate::kubernetes::label_selector::LabelSelector;

/// Webhook configuration, reduced to its calls of injectors for new pods.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HookConfiguration {
    /// Name of the configuration.
    pub name: String,
    /// Revision that it calls: its label `istio.io/rev`, else the revision that its entries select,
    /// else `default`.
    pub revision: String,
    /// Revision tag that it stands for (label `istio.io/tag`).
    pub tag: Option<String>,
    /// Entries that call injectors, in their order.
    pub hooks: Vec<Hook>,
}

impl HookConfiguration {
    /// Parses a `MutatingWebhookConfiguration`; `None` if it has no entry for injectors. The name
    /// of such an entry ends in `istio.io`.
    pub fn read(configuration: &Value) -> Result<Option<Self>, HookError> {
        let Raw { metadata: RawMetadata { name, mut labels }, webhooks } =
            Raw::deserialize(configuration).map_err(|error| HookError {
                name: configuration["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                problem: error.to_string(),
            })?;
        let hooks = webhooks.into_iter().filter(RawHook::is_an_injectors).map(RawHook::into_hook);
        let hooks: Vec<_> = hooks.collect();
        if hooks.is_empty() {
            return Ok(None);
        }
        let revision = labels.remove(REVISION).filter(|revision| !revision.is_empty());
        let revision = revision.or_else(|| hooks.iter().find_map(Hook::selected_revision));
        let revision = revision.unwrap_or_else(|| "default".to_owned());
        Ok(Some(Self { name, revision, tag: labels.remove(TAG), hooks }))
    }

    /// Returns the entry by which the API server calls the injector for a new pod, given the labels
    /// of its namespace.
    ///
    /// Istio's entries of one configuration are mutually exclusive. If two match all the same, the
    /// first one is returned.
    pub fn asks(&self, namespace_labels: &Value, pod: &Value) -> Option<&Hook> {
        self.hooks.iter().find(|hook| hook.asks(namespace_labels, pod))
    }

    /// True if `istioctl tag set default` has deactivated it, which leaves selectors that match
    /// nothing.
    pub fn is_deactivated(&self) -> bool {
        self.hooks.iter().any(|hook| {
            [&hook.namespace_selector, &hook.object_selector].into_iter().all(|selector| {
                selector.requirements().any(|requirement| requirement.key == DEACTIVATED)
            })
        })
    }
}

/// Webhook configuration that cannot be parsed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("MutatingWebhookConfiguration {name}: {problem}")]
pub struct HookError {
    /// Name of the configuration.
    pub name: String,
    /// Error message.
    pub problem: String,
}

/// Entry of a webhook configuration that calls an injector for new pods.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hook {
    /// Name of the entry, for example `namespace.sidecar-injector.istio.io`.
    pub name: String,
    /// Selector of namespaces.
    pub namespace_selector: LabelSelector,
    /// Selector of pods.
    pub object_selector: LabelSelector,
    /// Namespace of the called Service; `None` for a URL.
    pub service_namespace: Option<String>,
    /// Path of the call, for example `/inject/cluster/c1`; empty if there is none.
    pub path: String,
    /// Name of the called Service, or host of the URL.
    target: CallTarget,
    conditions: Vec<Condition>,
}

impl Hook {
    /// True if the API server calls this entry for a new pod. An unsupported match condition counts
    /// as met.
    pub fn asks(&self, namespace_labels: &Value, pod: &Value) -> bool {
        self.namespace_selector.admits(namespace_labels)
            && self.object_selector.admits(&pod["metadata"]["labels"])
            && self.conditions.iter().all(|condition| condition.holds(pod))
    }

    /// Returns the namespace and the name of the called Service; `None` for a URL.
    pub fn service(&self) -> Option<(&str, &str)> {
        match (&self.service_namespace, &self.target) {
            (Some(namespace), CallTarget::Service(name)) => Some((namespace, name)),
            _ => None,
        }
    }

    /// Returns the host of the called URL, empty if it has none; `None` for a Service.
    pub fn url_host(&self) -> Option<&str> {
        match &self.target {
            CallTarget::Url(host) => Some(host),
            CallTarget::Service(_) => None,
        }
    }

    /// Returns the unsupported match conditions: name and CEL expression.
    pub fn unknown_conditions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.conditions.iter().filter(|condition| condition.meaning.is_none()).map(Condition::shown)
    }

    /// Returns the first match condition that does not hold for the pod: name and CEL expression.
    pub fn unmet_condition(&self, pod: &Value) -> Option<(&str, &str)> {
        self.conditions.iter().find(|condition| !condition.holds(pod)).map(Condition::shown)
    }

    /// Returns the revision by which the entry selects namespaces or pods.
    fn selected_revision(&self) -> Option<String> {
        let selectors = [&self.namespace_selector, &self.object_selector];
        let mut requirements = selectors.into_iter().flat_map(LabelSelector::requirements);
        let selects = requirements.find(|one| one.key == REVISION && one.operator == "In");
        selects?.values.into_iter().next()
    }
}

/// Name of a Service, or host of a URL.
#[derive(Clone, Debug, Eq, PartialEq)]
enum CallTarget {
    Service(String),
    Url(String),
}

/// Match condition.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Condition {
    name: String,
    /// CEL expression with single spaces.
    expression: String,
    /// `None` for an unsupported expression, which only the API server evaluates.
    meaning: Option<AnnotationAbsent>,
}

/// The only supported condition: the pod does not have this annotation.
#[derive(Clone, Debug, Eq, PartialEq)]
struct AnnotationAbsent(String);

impl Condition {
    fn parse(RawCondition { name, expression }: RawCondition) -> Self {
        let words: Vec<_> = expression.split_whitespace().collect();
        let meaning = words
            .concat()
            .strip_prefix("!has(object.metadata.annotations)||!('")
            .and_then(|rest| rest.strip_suffix("'inobject.metadata.annotations)"))
            .filter(|annotation| !annotation.contains('\''))
            .map(|annotation| AnnotationAbsent(annotation.to_owned()));
        Self { name, expression: words.join(" "), meaning }
    }

    fn holds(&self, pod: &Value) -> bool {
        self.meaning
            .as_ref()
            .is_none_or(|AnnotationAbsent(key)| pod["metadata"]["annotations"].get(key).is_none())
    }

    fn shown(&self) -> (&str, &str) {
        (&self.name, &self.expression)
    }
}

#[derive(Deserialize)]
struct Raw {
    metadata: RawMetadata,
    #[serde(default, deserialize_with = "or_default")]
    webhooks: Vec<RawHook>,
}

#[derive(Deserialize)]
struct RawMetadata {
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawHook {
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    rules: Vec<RawRule>,
    #[serde(default, deserialize_with = "or_default")]
    namespace_selector: LabelSelector,
    #[serde(default, deserialize_with = "or_default")]
    object_selector: LabelSelector,
    #[serde(default, deserialize_with = "or_default")]
    match_conditions: Vec<RawCondition>,
    #[serde(default, deserialize_with = "or_default")]
    client_config: RawClientConfig,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawClientConfig {
    service: Option<RawService>,
    #[serde(deserialize_with = "or_default")]
    url: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawService {
    namespace: String,
    name: String,
    #[serde(deserialize_with = "or_default")]
    path: String,
}

impl RawClientConfig {
    /// Returns the namespace of the Service, the path, and the target.
    fn place(self) -> (Option<String>, String, CallTarget) {
        if let Some(RawService { namespace, name, path }) = self.service {
            return (Some(namespace), path, CallTarget::Service(name));
        }
        let url = self.url.parse::<Uri>().unwrap_or_default();
        let host = url.host().unwrap_or_default().to_owned();
        // A text that is no URL has no path.
        let path = if host.is_empty() { String::new() } else { url.path().to_owned() };
        (None, path, CallTarget::Url(host))
    }
}

impl RawHook {
    fn is_an_injectors(&self) -> bool {
        self.name.ends_with("istio.io") && self.rules.iter().any(RawRule::asks_about_new_pods)
    }

    fn into_hook(self) -> Hook {
        let conditions = self.match_conditions.into_iter();
        let (service_namespace, path, target) = self.client_config.place();
        Hook {
            name: self.name,
            namespace_selector: self.namespace_selector,
            object_selector: self.object_selector,
            service_namespace,
            path,
            target,
            conditions: conditions.map(Condition::parse).collect(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawRule {
    api_groups: Vec<String>,
    operations: Vec<String>,
    resources: Vec<String>,
}

impl RawRule {
    fn asks_about_new_pods(&self) -> bool {
        let any = |given: &[String], wanted: &[&str]| {
            given.iter().any(|word| wanted.contains(&word.as_str()))
        };
        any(&self.api_groups, &["", "*"])
            && any(&self.operations, &["CREATE", "*"])
            && any(&self.resources, &["pods", "*", "*/*"])
    }
}

#[derive(Deserialize)]
struct RawCondition {
    name: String,
    expression: String,
}

/// Label of a webhook configuration with its revision tag.
pub const TAG: &str = "istio.io/tag";
/// Label that no pod and no namespace has, in the selectors of a deactivated configuration.
pub const DEACTIVATED: &str = "istio.io/deactivated";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hook(more: &Value) -> Value {
        let mut hook = json!({
            "name": "namespace.sidecar-injector.istio.io",
            "rules": [{"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods"]}],
        });
        let fields = more.as_object().unwrap().clone();
        hook.as_object_mut().unwrap().extend(fields);
        hook
    }

    fn read(labels: &Value, hooks: &[Value]) -> Option<HookConfiguration> {
        let metadata = json!({"name": "c", "labels": labels});
        HookConfiguration::read(&json!({"metadata": metadata, "webhooks": hooks})).unwrap()
    }

    #[test]
    fn only_entries_for_pod_creation_are_injectors() {
        let others = [
            hook(&json!({"name": "pods.example.com"})),
            hook(
                &json!({"rules": [{"apiGroups": [""], "operations": ["UPDATE"], "resources": ["pods"]}]}),
            ),
            hook(&json!({"rules": null})),
        ];
        assert_eq!(read(&json!({}), &others), None);
        let configuration = read(&json!(null), &[hook(&json!({"objectSelector": null}))]);
        let configuration = configuration.unwrap();
        assert_eq!(configuration.revision, "default");
        assert!(configuration.asks(&json!({}), &json!({})).is_some());
    }

    #[test]
    fn revision_comes_from_the_label_or_the_selectors() {
        let selecting = || {
            let expression = json!({"key": "istio.io/rev", "operator": "In", "values": ["canary"]});
            hook(&json!({"namespaceSelector": {"matchExpressions": [expression]}}))
        };
        let revision = |labels| read(&labels, &[selecting()]).unwrap().revision;
        assert_eq!(revision(json!({"istio.io/rev": "stable"})), "stable");
        assert_eq!(revision(json!({"app": "sidecar-injector"})), "canary");
        let tag = read(&json!({"istio.io/rev": "1-28", "istio.io/tag": "prod"}), &[selecting()]);
        assert_eq!(tag.unwrap().tag.as_deref(), Some("prod"));
    }

    #[test]
    fn path_comes_from_the_service_or_the_url() {
        let place = |client: Value| {
            let hook = hook(&json!({"clientConfig": client}));
            let mut hooks = read(&json!({}), &[hook]).unwrap().hooks;
            let Hook { service_namespace, path, .. } = hooks.remove(0);
            (service_namespace.unwrap_or_default(), path)
        };
        let found = |namespace: &str, path: &str| (namespace.to_owned(), path.to_owned());
        let service = json!({"service": {"name": "istiod", "namespace": "n", "path": "/inject"}});
        assert_eq!(place(service), found("n", "/inject"));
        let service = json!({"service": {"name": "istiod", "namespace": "n"}, "url": null});
        assert_eq!(place(service), found("n", ""));
        let url = json!({"url": "https://remote:15017/inject/cluster/c1/net/n%201"});
        assert_eq!(place(url), found("", "/inject/cluster/c1/net/n%201"));
        assert_eq!(place(json!(null)), found("", ""));
    }

    #[test]
    fn own_match_conditions_are_evaluated_and_others_named() {
        let expression = "!has(object.metadata.annotations) ||\n  \
                          !('kubernetes.io/config.mirror' in object.metadata.annotations)";
        let conditions = json!({"matchConditions": [
            {"name": "not-a-mirror-pod", "expression": expression},
            {"name": "not-mine", "expression": "request.userInfo.username != 'me'"},
        ]});
        let configuration = read(&json!({}), &[hook(&conditions)]).unwrap();
        let annotated = |key: &str| json!({"metadata": {"annotations": {key: "x"}}});
        assert!(
            configuration.asks(&json!({}), &annotated("kubernetes.io/config.mirror")).is_none()
        );
        let asking = configuration.asks(&json!({}), &annotated("other")).unwrap();
        let unknown: Vec<_> = asking.unknown_conditions().collect();
        assert_eq!(unknown, [("not-mine", "request.userInfo.username != 'me'")]);
    }
}
