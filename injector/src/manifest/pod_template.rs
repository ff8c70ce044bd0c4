//! Positions of the pods in a document.

use serde_json::Value;

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
}

impl PodTemplate {
    /// True if it is a pod. Its workload is then derived from its own metadata.
    pub fn is_pod(&self) -> bool {
        self.workload.kind == "Pod"
    }
}

/// True if objects of the kind can hold a pod.
pub(super) fn is_known(kind: &str) -> bool {
    KINDS.iter().any(|known| known.kind == kind) || kind == LIST
}

/// True if injection supports the kind in this API version.
pub(super) fn is_injected(api_version: &str, kind: &str) -> bool {
    KINDS.iter().any(|known| (known.api_version, known.kind) == (api_version, kind))
}

/// Returns the kind with the same name in any letter case, and its API versions.
pub(super) fn meant(word: &str) -> Option<(&'static str, Vec<&'static str>)> {
    let list = WorkloadKind { api_version: "v1", kind: LIST, template: &[] };
    let known: Vec<_> =
        KINDS.iter().chain([&list]).filter(|known| known.kind.eq_ignore_ascii_case(word)).collect();
    let kind = known.first()?.kind;
    Some((kind, known.iter().map(|known| known.api_version).collect()))
}

/// Returns the position of every pod template of a document, including absent ones.
pub(super) fn find(document: &Value) -> Vec<PodTemplate> {
    let mut found = Vec::new();
    look(document, &mut Vec::new(), &mut found);
    found
}

/// Returns the positions of the pod templates in a sequence of objects.
pub(super) fn find_in_items(items: &Value) -> Vec<PodTemplate> {
    let mut found = Vec::new();
    look_at_items(items, &mut Vec::new(), &mut found);
    found
}

fn look_at_items(items: &Value, place: &mut Vec<String>, found: &mut Vec<PodTemplate>) {
    let items = items.as_array().map_or(&[][..], Vec::as_slice);
    for (index, item) in items.iter().enumerate() {
        place.push(index.to_string());
        look(item, place, found);
        place.pop();
    }
}

fn look(value: &Value, place: &mut Vec<String>, found: &mut Vec<PodTemplate>) {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    if (api_version, kind) == ("v1", LIST) {
        place.push("items".to_owned());
        look_at_items(&value["items"], place, found);
        place.pop();
        return;
    }
    let known = KINDS.iter().find(|known| (known.api_version, known.kind) == (api_version, kind));
    let Some(known) = known else { return };
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
    let outer = place.len();
    let inner = known.template.iter().map(|&key| key.to_owned());
    let place = place.iter().cloned().chain(inner).collect();
    found.push(PodTemplate { workload, place, line: 0, outer });
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
