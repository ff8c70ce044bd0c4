//! Namespaces.

use serde::Deserialize;

use super::{InvalidObject, Manifest, Metadata, ObjectDefaults};
use crate::namespace::Namespace;

/// `Namespace` of Kubernetes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceManifest {
    metadata: Metadata,
}

impl Manifest for NamespaceManifest {
    type Object = Namespace;
    const KIND: &'static str = "Namespace";
    const API_VERSION: &'static str = "v1";
    const PLURAL: &'static str = "namespaces";

    fn metadata(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    fn convert(mut self, _: &ObjectDefaults) -> Result<Option<Namespace>, InvalidObject> {
        Ok(Some(Namespace { name: self.metadata.name(), labels: self.metadata.labels() }))
    }
}
