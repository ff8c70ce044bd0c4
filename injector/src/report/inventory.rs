//! Namespaces, injectors and pods of a cluster, as `istioctl`'s `injector list` shows them.

use std::collections::BTreeMap;

use reason::Reason;
use serde::Serialize;
use serde_json::{Value, json};

use super::inspection::{Answer, Injectors};
use super::sidecar_state::{SidecarState, image};
use crate::inject::policy::is_ignored;
use crate::inject::reinject::status::InjectionStatus;
use crate::istio::labels::{INJECT, REVISION};
use crate::kubernetes::pod::PROXY;
use crate::kubernetes::webhook_configuration::HookConfiguration;
use crate::kubernetes::workload::Workload;

/// Counts and findings of pods, added one after the other; no pod is kept.
#[derive(Debug)]
pub struct Inventory<'a> {
    injectors: Injectors<'a>,
    namespaces: &'a BTreeMap<String, Value>,
    counts: BTreeMap<String, BTreeMap<String, Count>>,
    findings: Vec<PodFinding>,
}

/// Counts of the pods of one revision in one namespace.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    /// All pods.
    pub pods: usize,
    /// Pods that opt out.
    pub injection_disabled: usize,
    /// Pods that differ from a new pod in their place.
    pub needs_restart: usize,
}

/// Pod that differs from a fresh injection, or for which this is unknown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodFinding {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// `Kind/name` of its workload.
    pub owner: String,
    /// State: `no sidecar`, `stale` or `unknown`.
    pub state: &'static str,
    /// Reasons for the state.
    pub reasons: Vec<Reason>,
}

/// Row of the list of namespaces.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct NamespaceRow {
    /// Name of the namespace.
    pub namespace: String,
    /// Revision that injects a pod without labels of its own. `MISSING/` and the requested revision
    /// if there is no such revision; empty if none is requested.
    pub revision: String,
    /// Pods by the revision that injected them; `<non-Istio>` for pods without a sidecar.
    pub pods: BTreeMap<String, Count>,
}

/// Row of the list of injectors.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct InjectorRow {
    /// Namespaces in which it injects pods without labels of their own.
    pub namespaces: Vec<String>,
    /// Name of the webhook configuration.
    pub hook: String,
    /// Revision that it calls.
    pub revision: String,
    /// Image of the proxy in a pod that only requests injection; empty if unknown.
    pub image: String,
}

impl<'a> Inventory<'a> {
    /// Returns an empty inventory for namespaces with these labels.
    pub fn new(injectors: Injectors<'a>, namespaces: &'a BTreeMap<String, Value>) -> Self {
        Self { injectors, namespaces, counts: BTreeMap::new(), findings: Vec::new() }
    }

    /// Counts a pod. Pods in namespaces that are never injected are ignored.
    pub fn add(&mut self, pod: &Value) {
        let metadata = &pod["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = text(&metadata["namespace"]);
        if is_ignored(&namespace) {
            return;
        }
        let labels = self.namespaces.get(&namespace).unwrap_or(&Value::Null);
        let sidecar_state = SidecarState::new(&self.injectors, labels, pod);
        let revision = InjectionStatus::from_pod(pod).map(|earlier| earlier.revision().to_owned());
        let revision = revision.unwrap_or_else(|| NOT_INJECTED.to_owned());
        let revisions = self.counts.entry(namespace.clone()).or_default();
        let count = revisions.entry(revision).or_default();
        count.pods += 1;
        count.injection_disabled += usize::from(opts_out(metadata));
        let (state, reasons) = match sidecar_state {
            SidecarState::Current | SidecarState::NotAsked(_) => return,
            SidecarState::Stale(reasons) => ("stale", reasons),
            SidecarState::Missing(reason) => ("no sidecar", vec![reason]),
            SidecarState::Unknown(reason) => ("unknown", vec![reason]),
        };
        count.needs_restart += usize::from(state != "unknown");
        let owner = Workload::from_pod(pod, &namespace);
        self.findings.push(PodFinding {
            namespace,
            name: text(&metadata["name"]),
            owner: format!("{}/{}", owner.kind, owner.name),
            state,
            reasons,
        });
    }

    /// Returns a row for every namespace, except `control_plane`, namespaces that are never
    /// injected, and those of the ambient mode, whose pods have no sidecars.
    pub fn namespaces(&self, control_plane: &str) -> Vec<NamespaceRow> {
        let shown = self.namespaces.iter().filter(|(name, labels)| {
            !is_ignored(name) && *name != control_plane && labels[MODE] != "ambient"
        });
        let row = |(name, labels): (&String, &Value)| NamespaceRow {
            namespace: name.clone(),
            revision: self.revision(labels),
            pods: self.counts.get(name).cloned().unwrap_or_default(),
        };
        shown.map(row).collect()
    }

    /// Returns a row for every webhook configuration.
    pub fn injectors(&self) -> Vec<InjectorRow> {
        let row = |configuration: &HookConfiguration| {
            let injects = |(name, labels): &(&String, &Value)| {
                !is_ignored(name) && configuration.asks(labels, &silent_pod(name)).is_some()
            };
            let namespaces = self.namespaces.iter().filter(injects);
            InjectorRow {
                namespaces: namespaces.map(|(name, _)| name.clone()).collect(),
                hook: configuration.name.clone(),
                revision: configuration.revision.clone(),
                image: self.image(configuration),
            }
        };
        self.injectors.configurations.iter().map(row).collect()
    }

    /// Returns the findings, by namespace and name.
    pub fn findings(mut self) -> Vec<PodFinding> {
        let key = |one: &PodFinding| (one.namespace.clone(), one.name.clone());
        self.findings.sort_by_key(key);
        self.findings
    }

    fn revision(&self, labels: &Value) -> String {
        let pod = silent_pod("");
        let configurations = self.injectors.configurations;
        let asking = configurations.iter().find(|one| one.asks(labels, &pod).is_some());
        if let Some(configuration) = asking {
            return configuration.revision.clone();
        }
        match (labels["istio-injection"].as_str(), labels[REVISION].as_str()) {
            (Some("enabled"), _) => "MISSING/istio-injection".to_owned(),
            (None, Some(revision)) if !revision.is_empty() => format!("MISSING/{revision}"),
            _ => String::new(),
        }
    }

    /// Returns the image of the proxy in a pod that requests injection.
    fn image(&self, configuration: &HookConfiguration) -> String {
        let injector = self.injectors.known.get(&configuration.revision);
        let mut pod = silent_pod("default");
        pod["metadata"]["labels"] = json!({INJECT: "true"});
        match injector.map(|injector| injector.answer(&pod)) {
            Some(Answer::Inject(injection)) => {
                image(&injection.pod, PROXY).unwrap_or_default().to_owned()
            }
            _ => String::new(),
        }
    }
}

fn silent_pod(namespace: &str) -> Value {
    json!({"metadata": {"name": "any", "namespace": namespace}, "spec": {"containers": []}})
}

fn opts_out(metadata: &Value) -> bool {
    let said = |list: &str| metadata[list][INJECT].as_str();
    said("labels").or(said("annotations")) == Some("false")
}

const NOT_INJECTED: &str = "<non-Istio>";
const MODE: &str = "istio.io/dataplane-mode";
