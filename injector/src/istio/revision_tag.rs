//! Webhook configurations of revision tags, as `istioctl tag` writes them.

use serde_json::{Map, Value, json};

use super::labels::{INJECT, REVISION};
use crate::kubernetes::webhook_configuration::{DEACTIVATED, TAG};

/// A revision tag: a second name of a revision, for the label `istio.io/rev`.
#[derive(Clone, Copy, Debug)]
pub struct RevisionTag<'a> {
    /// Name of the tag.
    pub name: &'a str,
    /// Name of its webhook configuration.
    pub webhook: &'a str,
    /// Revision that it stands for.
    pub revision: &'a str,
    /// True if the tag `default` injects pods without labels in namespaces without labels.
    pub inject_by_default: bool,
}

impl RevisionTag<'_> {
    /// Returns the webhook configuration of the tag, given that of its revision; `None` if that has
    /// no entry of an injector.
    ///
    /// URL, Service, `caBundle`, policies and match conditions are those of the revision, and so
    /// are the requirements of its selectors on other labels than Istio's.
    pub fn configuration(&self, of_revision: &Value) -> Option<Value> {
        let entries = of_revision["webhooks"].as_array()?;
        let template = entries.iter().find(|entry| is_injectors(entry))?;
        let metadata = &of_revision["metadata"];
        let mut labels = metadata["labels"].as_object().cloned().unwrap_or_default();
        labels.insert("app".to_owned(), "sidecar-injector".into());
        labels.insert(REVISION.to_owned(), self.revision.into());
        labels.insert(TAG.to_owned(), self.name.into());
        let mut configuration = json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": self.webhook, "labels": labels},
            "webhooks": self.entries(template),
        });
        let annotations = metadata["annotations"].as_object().into_iter().flatten();
        let annotations = annotations.filter(|(key, _)| !is_of_a_tool(key));
        let annotations: Map<_, _> =
            annotations.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !annotations.is_empty() {
            configuration["metadata"]["annotations"] = annotations.into();
        }
        Some(configuration)
    }

    fn entries(&self, template: &Value) -> Vec<Value> {
        let tag = [self.name];
        let not_opted_out = || requirement(INJECT, "NotIn", &["false"]);
        let unlabelled = || [absent(REVISION), absent(INJECTION)];
        let mut selectors = vec![
            (
                "rev.namespace.",
                vec![requirement(REVISION, "In", &tag), absent(INJECTION)],
                vec![not_opted_out()],
            ),
            (
                "rev.object.",
                unlabelled().to_vec(),
                vec![not_opted_out(), requirement(REVISION, "In", &tag)],
            ),
        ];
        if self.name == DEFAULT {
            selectors.push((
                "namespace.",
                vec![requirement(INJECTION, "In", &["enabled"])],
                vec![not_opted_out()],
            ));
            selectors.push((
                "object.",
                vec![absent(INJECTION), absent(REVISION)],
                vec![requirement(INJECT, "In", &["true"]), absent(REVISION)],
            ));
            if self.inject_by_default {
                let mut namespaces = vec![absent(INJECTION), absent(REVISION)];
                namespaces.push(requirement(NAME, "NotIn", &SYSTEM_NAMESPACES));
                selectors.push(("auto.", namespaces, vec![absent(INJECT), absent(REVISION)]));
            }
        }
        let entry = |(prefix, namespaces, objects): (&str, Vec<Value>, Vec<Value>)| {
            let mut entry = template.clone();
            entry["name"] = format!("{prefix}{INJECTOR}").into();
            for (field, own) in [("namespaceSelector", namespaces), ("objectSelector", objects)] {
                entry[field] = selector(&template[field], own);
            }
            entry
        };
        selectors.into_iter().map(entry).collect()
    }
}

/// Returns a webhook configuration with the names and selectors of its entries alone, changed to
/// match no pod. `None` if it matches none already.
///
/// Unlike Istio's, the selectors keep their other requirements, for [`reactivated`].
pub fn deactivated(configuration: &Value) -> Option<Value> {
    with_selectors(configuration, |selector| {
        selector["matchLabels"][DEACTIVATED] = NEVER.into();
    })
}

/// Returns a webhook configuration with the names and selectors of its entries alone, as they were
/// before [`deactivated`]. `None` if they are that already, or if a selector would match everything
/// because Istio deactivated it.
pub fn reactivated(configuration: &Value) -> Option<Value> {
    let changed = with_selectors(configuration, |selector| {
        let Some(selector) = selector.as_object_mut() else { return };
        if let Some(Value::Object(labels)) = selector.get_mut("matchLabels") {
            labels.remove(DEACTIVATED);
            if labels.is_empty() {
                selector.remove("matchLabels");
            }
        }
    })?;
    let has_requirements = |entry: &Value| {
        let selectors = ["namespaceSelector", "objectSelector"].into_iter();
        let is_empty = |selector: &Value| selector.as_object().is_none_or(Map::is_empty);
        selectors.map(|field| &entry[field]).any(|selector| !is_empty(selector))
    };
    let all = changed["webhooks"].as_array()?.iter().all(has_requirements);
    all.then_some(changed)
}

/// Changes the selectors of the injectors' entries; `None` if that changes nothing.
fn with_selectors(configuration: &Value, change: impl Fn(&mut Value)) -> Option<Value> {
    let entries = configuration["webhooks"].as_array()?;
    let mut is_changed = false;
    let mut changed = Vec::new();
    for entry in entries.iter().filter(|entry| is_injectors(entry)) {
        let mut selectors = json!({"name": entry["name"]});
        for field in ["namespaceSelector", "objectSelector"] {
            let mut selector = entry[field].clone();
            change(&mut selector);
            is_changed |= selector != entry[field];
            selectors[field] = selector;
        }
        changed.push(selectors);
    }
    is_changed.then(|| {
        json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": configuration["metadata"]["name"]},
            "webhooks": changed,
        })
    })
}

/// Returns the own requirements and those of another selector on labels that are not Istio's.
fn selector(of_revision: &Value, own: Vec<Value>) -> Value {
    let is_istios = |key: &str| [REVISION, INJECTION, INJECT, DEACTIVATED].contains(&key);
    let expressions = of_revision["matchExpressions"].as_array().into_iter().flatten();
    let others = expressions.filter(|one| !is_istios(one["key"].as_str().unwrap_or_default()));
    let labels = of_revision["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.filter(|(key, _)| !is_istios(key));
    let labels: Map<_, _> = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    let expressions: Vec<_> = others.cloned().chain(own).collect();
    if labels.is_empty() {
        json!({"matchExpressions": expressions})
    } else {
        json!({"matchLabels": labels, "matchExpressions": expressions})
    }
}

fn is_injectors(entry: &Value) -> bool {
    entry["name"].as_str().is_some_and(|name| name.ends_with(INJECTOR))
}

/// True for annotations about another object, such as the one that a tool applied.
fn is_of_a_tool(key: &str) -> bool {
    let prefix = key.split('/').next().unwrap_or_default();
    ["kubectl.kubernetes.io", "meta.helm.sh", "argocd.argoproj.io"].contains(&prefix)
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

fn absent(key: &str) -> Value {
    json!({"key": key, "operator": "DoesNotExist"})
}

/// The tag, and the revision, of pods and namespaces that name none.
pub const DEFAULT: &str = "default";

const API_VERSION: &str = "admissionregistration.k8s.io/v1";
const KIND: &str = "MutatingWebhookConfiguration";
const INJECTOR: &str = "sidecar-injector.istio.io";
const INJECTION: &str = "istio-injection";
const NAME: &str = "kubernetes.io/metadata.name";
const NEVER: &str = "never-match";
const SYSTEM_NAMESPACES: [&str; 4] =
    ["kube-system", "kube-public", "kube-node-lease", "local-path-storage"];

#[cfg(test)]
mod tests {
    use documents::yaml;

    use super::*;

    fn base() -> Value {
        yaml::parse(include_str!("../../../manifests/base/webhook.yaml")).unwrap()
    }

    fn tag(name: &str, inject_by_default: bool) -> Value {
        let webhook = format!("istio-revision-tag-{name}");
        let tag = RevisionTag { name, webhook: &webhook, revision: "default", inject_by_default };
        tag.configuration(&base()).unwrap()
    }

    /// Sorts the requirements of each selector, whose order has no meaning.
    fn sorted(mut configuration: Value) -> Vec<Value> {
        let Value::Array(mut entries) = configuration["webhooks"].take() else { panic!() };
        for entry in &mut entries {
            for field in ["namespaceSelector", "objectSelector"] {
                let requirements = entry[field]["matchExpressions"].as_array_mut().unwrap();
                requirements.sort_by_key(ToString::to_string);
            }
        }
        entries
    }

    #[test]
    fn entries_equal_those_of_the_manifests() {
        let by_name = include_str!("../../../manifests/components/tag/tagged/webhook.yaml");
        let by_name = yaml::parse(by_name).unwrap();
        assert_eq!(sorted(tag("tag", false)), sorted(by_name));
        let default = include_str!("../../../manifests/components/default-tag/webhook.yaml");
        assert_eq!(sorted(tag("default", false)), sorted(yaml::parse(default).unwrap()));
    }

    #[test]
    fn metadata_is_that_of_the_revision_and_the_tag() {
        let mut canary = base();
        canary["metadata"]["labels"] = json!({"app": "istiod", "release": "istio"});
        canary["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "mesh"});
        let tag = RevisionTag {
            name: "prod",
            webhook: "istio-revision-tag-prod",
            revision: "canary",
            inject_by_default: true,
        };
        let configuration = tag.configuration(&canary).unwrap();
        let expected = json!({
            "name": "istio-revision-tag-prod",
            "labels": {
                "app": "sidecar-injector", "release": "istio", "istio.io/rev": "canary",
                "istio.io/tag": "prod",
            },
            "annotations": {"team": "mesh"},
        });
        assert_eq!(configuration["metadata"], expected);
        assert_eq!(configuration["webhooks"].as_array().unwrap().len(), 2);
        assert!(tag.configuration(&json!({"webhooks": [{"name": "a.example.com"}]})).is_none());
    }

    #[test]
    fn default_tag_injects_everywhere_on_request() {
        let configuration = tag("default", true);
        let auto = configuration["webhooks"].as_array().unwrap().last().unwrap();
        assert_eq!(auto["name"], "auto.sidecar-injector.istio.io");
        let requirements = &auto["namespaceSelector"]["matchExpressions"];
        assert_eq!(requirements.as_array().unwrap().len(), 4, "{requirements}");
    }

    /// Applies changed selectors.
    fn apply(configuration: &mut Value, patch: &Value) {
        let entries = configuration["webhooks"].as_array_mut().unwrap();
        for (entry, patch) in entries.iter_mut().zip(patch["webhooks"].as_array().unwrap()) {
            for field in ["namespaceSelector", "objectSelector"] {
                entry[field] = patch[field].clone();
            }
        }
    }

    #[test]
    fn deactivated_configuration_can_be_the_source_of_a_tag() {
        let mut base = base();
        let patch = deactivated(&base).unwrap();
        apply(&mut base, &patch);
        assert_eq!(deactivated(&base), None);
        let revision = RevisionTag {
            name: "tag",
            webhook: "istio-revision-tag-tag",
            revision: "default",
            inject_by_default: false,
        };
        assert_eq!(revision.configuration(&base).unwrap(), tag("tag", false));
    }

    #[test]
    fn reactivated_configuration_has_its_selectors_again() {
        let mut configuration = base();
        assert_eq!(reactivated(&configuration), None);
        let patch = deactivated(&configuration).unwrap();
        apply(&mut configuration, &patch);
        let patch = reactivated(&configuration).unwrap();
        apply(&mut configuration, &patch);
        assert_eq!(configuration, base());
        // Istio's command removes the expressions, and then nothing would exclude a pod.
        let never = json!({"matchLabels": {DEACTIVATED: NEVER}});
        for entry in configuration["webhooks"].as_array_mut().unwrap() {
            entry["namespaceSelector"] = never.clone();
            entry["objectSelector"] = never.clone();
        }
        assert_eq!(reactivated(&configuration), None);
    }
}
