//! Objects to analyze.

use std::collections::{BTreeMap, BTreeSet};

use injector::analysis::cluster_state::{AnalyzedNamespace, AnalyzedPod, ClusterState};
use injector::analysis::message::MessageOrigin;
use injector::analysis::suppression::SUPPRESS;
use injector::kubernetes::webhook_configuration::{HookConfiguration, HookError};
use injector::report::inspection::{Injector, Injectors};
use serde_json::Value;

use super::policies::Policies;

/// Objects to analyze. An object of a file replaces that of the cluster.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) namespaces: BTreeMap<String, AnalyzedNamespace>,
    pub(super) pods: Vec<AnalyzedPod>,
    pub(super) configurations: Vec<HookConfiguration>,
    /// Origins of all mutating webhook configurations by name.
    pub(super) webhooks: BTreeMap<String, MessageOrigin>,
    pub(super) invalid_webhooks: Vec<HookError>,
    /// Namespace and name of the Services; of the cluster only those of webhooks.
    pub(super) services: BTreeSet<(String, String)>,
    pub(super) policies: Policies,
    pub(super) unresolved: BTreeMap<String, String>,
    pub(super) known: BTreeMap<String, Injector>,
    /// Injector of all pods, if no cluster is asked.
    pub(super) built_in: Option<Injector>,
    /// Number of objects in files that no analyzer looks at, by kind.
    pub(super) ignored: BTreeMap<String, usize>,
    /// Parts of the analysis that are left out.
    pub(super) notes: Vec<String>,
}

impl Snapshot {
    /// Returns the value for the analysis.
    pub(super) fn state<'a>(&'a self, control_plane: &'a str) -> ClusterState<'a> {
        ClusterState {
            injectors: Injectors { configurations: &self.configurations, known: &self.known },
            webhooks: &self.webhooks,
            invalid_webhooks: &self.invalid_webhooks,
            namespaces: &self.namespaces,
            pods: &self.pods,
            services: &self.services,
            unresolved: &self.unresolved,
            built_in: self.built_in.as_ref(),
            control_plane,
        }
    }

    /// Returns the parts of the analysis that are left out, as sentences.
    pub(super) fn left_out(&self) -> impl Iterator<Item = String> {
        let kinds = self.ignored.iter().map(|(kind, count)| format!("{count} {kind}"));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        let ignored = format!("no analyzer looks at these objects of the files: {kinds}");
        self.notes.iter().cloned().chain(Some(ignored).filter(|_| !kinds.is_empty()))
    }

    /// Adds a webhook configuration, unless there is one of the name.
    pub(super) fn add_webhook(&mut self, object: &Value, place: String) {
        let origin = origin("MutatingWebhookConfiguration", &object["metadata"], place);
        if self.webhooks.contains_key(&origin.name) {
            return;
        }
        match HookConfiguration::read(object) {
            Ok(configuration) => self.configurations.extend(configuration),
            Err(error) => self.invalid_webhooks.push(error),
        }
        self.configurations.sort_by(|one, other| one.name.cmp(&other.name));
        self.webhooks.insert(origin.name.clone(), origin);
    }
}

/// Returns the origin of an object.
pub(super) fn origin(kind: &str, metadata: &Value, place: String) -> MessageOrigin {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    MessageOrigin {
        kind: kind.to_owned(),
        namespace: text(&metadata["namespace"]),
        name: text(&metadata["name"]),
        place,
        suppressed: text(&metadata["annotations"][SUPPRESS]),
    }
}
