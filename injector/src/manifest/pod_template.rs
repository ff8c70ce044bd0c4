//! Positions of the pods in a document.

use reason::{Reason, words};
use serde_json::Value;

use super::pod_template_rule::{PodTemplateRule, group_of};
use crate::kubernetes::workload::Workload;

/// A pod template or a pod of a document.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodTemplate {
    /// The workload that owns the template; for a pod, the pod.
    pub workload: Workload,
    /// The keys and indexes that lead from the document to the template.
    pub place: Vec<String>,
    /// The line of the file at which the workload starts, from 1.
    pub line: usize,
    /// Number of keys of `place` that lead to the workload.
    pub(super) outer: usize,
    /// The user's rule that names the template.
    pub(super) rule: Option<PodTemplateRule>,
}

impl PodTemplate {
    /// True if it is a pod. Its workload is then derived from its own metadata.
    pub fn is_pod(&self) -> bool {
        self.workload.api_version == "v1" && self.workload.kind == "Pod"
    }

    /// Returns the keys and indexes that lead from the workload to the template.
    pub fn path_in_object(&self) -> &[String] {
        &self.place[self.outer..]
    }

    /// Returns the reason to leave an object of a file as it is, because its own API rejects an
    /// injected template. `None` if a rule of the user names the template.
    pub fn stays(&self) -> Option<Reason> {
        let is_free = !is_of_knative(&self.workload.api_version) || self.rule.is_some();
        (!is_free).then(|| of_knative(&self.path_in_object().join(".")))
    }
}

/// True if the object belongs to Knative, whose pod templates allow only some fields of a pod.
pub(super) fn is_of_knative(api_version: &str) -> bool {
    group_of(api_version) == "serving.knative.dev"
}

/// Returns the reason to leave an object of Knative.
pub(super) fn of_knative(template: &str) -> Reason {
    let message = format!(
        "{template} is a pod template of Knative, which rejects the fields of a sidecar, so it is \
         not injected"
    );
    Reason::new(words::KNATIVE, message)
}

/// True if objects of the kind can hold a pod, by the rules or without them. An `apiVersion` may be
/// unknown.
pub(super) fn is_known(api_version: Option<&str>, kind: &str, rules: &[PodTemplateRule]) -> bool {
    KINDS.iter().any(|known| known.kind == kind)
        || kind == LIST
        || all(rules).any(|rule| rule.applies(api_version, kind))
}

/// True if a rule is about the kind.
pub(super) fn has_rule(api_version: &str, kind: &str, rules: &[PodTemplateRule]) -> bool {
    all(rules).any(|rule| rule.applies(Some(api_version), kind))
}

/// Returns the given rules and the built-in ones.
fn all(rules: &[PodTemplateRule]) -> impl Iterator<Item = &PodTemplateRule> {
    PodTemplateRule::built_in().iter().chain(rules)
}

/// Returns the kind with the same name in any letter case, and its API versions.
pub(super) fn meant(word: &str) -> Option<(&'static str, Vec<&'static str>)> {
    let list = WorkloadKind { api_version: "v1", kind: LIST, template: &[] };
    let known: Vec<_> =
        KINDS.iter().chain([&list]).filter(|known| known.kind.eq_ignore_ascii_case(word)).collect();
    let kind = known.first()?.kind;
    Some((kind, known.iter().map(|known| known.api_version).collect()))
}

/// Returns the position of every pod template of a document. A workload of a kind that Istio's
/// command knows has one even if it is absent.
pub(super) fn find(document: &Value, rules: &[PodTemplateRule]) -> Vec<PodTemplate> {
    let mut search = Search { rules, place: Vec::new(), found: Vec::new() };
    search.look(document);
    search.found
}

/// Returns the positions of the pod templates in a sequence of objects.
pub(super) fn find_in_items(items: &Value, rules: &[PodTemplateRule]) -> Vec<PodTemplate> {
    let mut search = Search { rules, place: Vec::new(), found: Vec::new() };
    search.look_at_items(items);
    search.found
}

struct Search<'a> {
    rules: &'a [PodTemplateRule],
    /// The keys and indexes that lead to the object.
    place: Vec<String>,
    found: Vec<PodTemplate>,
}

impl Search<'_> {
    fn look_at_items(&mut self, items: &Value) {
        let items = items.as_array().map_or(&[][..], Vec::as_slice);
        for (index, item) in items.iter().enumerate() {
            self.place.push(index.to_string());
            self.look(item);
            self.place.pop();
        }
    }

    fn look(&mut self, value: &Value) {
        let text =
            |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        if (api_version, kind) == ("v1", LIST) {
            self.place.push("items".to_owned());
            self.look_at_items(&value["items"]);
            self.place.pop();
            return;
        }
        let known = KINDS.iter().filter(|it| (it.api_version, it.kind) == (api_version, kind));
        let known = known.map(|known| known.template.iter().map(|&key| key.to_owned()).collect());
        let mut templates: Vec<(Vec<String>, _)> = known.map(|place| (place, None)).collect();
        for rule in all(self.rules).filter(|rule| rule.applies(Some(api_version), kind)) {
            // A place inside a template, or around one, is none of another pod.
            let is_apart = |place: &Vec<String>| {
                let known = templates.iter().map(|(known, _)| known);
                known.into_iter().all(|it| !it.starts_with(place) && !place.starts_with(it))
            };
            let others: Vec<_> = rule.find(value).into_iter().filter(is_apart).collect();
            let given = self.rules.contains(rule).then(|| rule.clone());
            templates.extend(others.into_iter().map(|place| (place, given.clone())));
        }
        if templates.is_empty() {
            return;
        }
        let name = match text("/metadata/name") {
            "" => text("/metadata/generateName"),
            name => name,
        };
        let workload = Workload {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: text("/metadata/namespace").to_owned(),
        };
        let outer = self.place.len();
        self.found.extend(templates.into_iter().map(|(inner, rule)| PodTemplate {
            workload: workload.clone(),
            place: [&*self.place, &inner].concat(),
            line: 0,
            outer,
            rule,
        }));
    }
}

/// A kind that holds a pod, and the path of the pod template.
struct WorkloadKind {
    api_version: &'static str,
    kind: &'static str,
    template: &'static [&'static str],
}

/// The kind whose items are objects.
pub(super) const LIST: &str = "List";
const TEMPLATE: &[&str] = &["spec", "template"];
const CRON_TEMPLATE: &[&str] = &["spec", "jobTemplate", "spec", "template"];

/// The kinds that Istio's `kube-inject` supports.
const KINDS: &[WorkloadKind] = &[
    WorkloadKind {
        api_version: "apps.openshift.io/v1",
        kind: "DeploymentConfig",
        template: TEMPLATE,
    },
    WorkloadKind { api_version: "apps/v1", kind: "DaemonSet", template: TEMPLATE },
    WorkloadKind { api_version: "apps/v1", kind: "Deployment", template: TEMPLATE },
    WorkloadKind { api_version: "apps/v1", kind: "ReplicaSet", template: TEMPLATE },
    WorkloadKind { api_version: "apps/v1", kind: "StatefulSet", template: TEMPLATE },
    WorkloadKind { api_version: "batch/v1", kind: "CronJob", template: CRON_TEMPLATE },
    WorkloadKind { api_version: "batch/v1", kind: "Job", template: TEMPLATE },
    WorkloadKind { api_version: "batch/v1beta1", kind: "CronJob", template: CRON_TEMPLATE },
    WorkloadKind { api_version: "extensions/v1beta1", kind: "DaemonSet", template: TEMPLATE },
    WorkloadKind { api_version: "extensions/v1beta1", kind: "Deployment", template: TEMPLATE },
    WorkloadKind { api_version: "extensions/v1beta1", kind: "ReplicaSet", template: TEMPLATE },
    WorkloadKind { api_version: "v1", kind: "DeploymentConfig", template: TEMPLATE },
    WorkloadKind { api_version: "v1", kind: "Pod", template: &[] },
    WorkloadKind { api_version: "v1", kind: "ReplicationController", template: TEMPLATE },
];
