//! Metadata of objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

use crate::event::ObjectKey;
use crate::labels::Labels;

/// The part of the metadata that the model and watches need.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name.
    pub name: Option<Arc<str>>,
    /// Namespace; missing for nodes and namespaces.
    pub namespace: Option<Arc<str>>,
    /// Version of the object for watches.
    pub resource_version: Option<String>,
    creation_timestamp: Option<Timestamp>,
    labels: Option<BTreeMap<Arc<str>, Arc<str>>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OwnerReference {
    kind: Option<String>,
    name: Option<Arc<str>>,
    controller: Option<bool>,
}

impl Metadata {
    /// Name of the object within its kind.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }

    pub(super) fn name(&self) -> Arc<str> {
        self.name.clone().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> Arc<str> {
        self.namespace.clone().unwrap_or_default()
    }

    /// Seconds since 1970; 0 if unknown, as in files.
    pub fn created(&self) -> i64 {
        self.creation_timestamp.map_or(0, Timestamp::as_second)
    }

    /// Value of a label that is not empty.
    pub(super) fn label(&self, key: &str) -> Option<&Arc<str>> {
        self.labels.as_ref()?.get(key).filter(|value| !value.is_empty())
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Name of the controller, or of the object itself. That of a `ReplicaSet` is its Deployment.
    pub(super) fn owner(&self) -> Arc<str> {
        let references = self.owner_references.iter().flatten();
        let controller = references.rev().find(|it| it.controller == Some(true));
        let Some(controller) = controller else { return self.name() };
        let Some(name) = &controller.name else { return self.name() };
        let hash = self
            .label("pod-template-hash")
            .filter(|_| controller.kind.as_deref() == Some("ReplicaSet"));
        let deployment = hash.and_then(|hash| name.strip_suffix(&**hash)?.strip_suffix('-'));
        deployment.map_or_else(|| name.clone(), Arc::from)
    }

    pub(super) fn labels(&mut self) -> Labels {
        self.labels.take().into_iter().flatten().collect()
    }
}
