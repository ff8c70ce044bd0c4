//! Objects of watches.

use std::borrow::Cow;

use kube::Resource;
use kube::core::{ClusterResourceScope, ObjectMeta};
use serde::{Deserialize, Deserializer};

use crate::manifest::Manifest;

/// Manifest with the metadata that a watch needs. Other fields, among them `managedFields`, are
/// skipped while the JSON is parsed.
#[derive(Clone, Debug)]
pub(super) struct Watched<M> {
    metadata: ObjectMeta,
    pub(super) manifest: M,
}

impl<M> Watched<M> {
    /// Version of the object.
    pub(super) fn version(&self) -> Option<String> {
        self.metadata.resource_version.clone()
    }
}

impl<'de, M: Manifest + Deserialize<'de>> Deserialize<'de> for Watched<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut manifest = M::deserialize(deserializer)?;
        let metadata = manifest.metadata();
        let metadata = ObjectMeta {
            name: metadata.name.as_deref().map(str::to_owned),
            namespace: metadata.namespace.as_deref().map(str::to_owned),
            resource_version: metadata.resource_version.take(),
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, manifest })
    }
}

impl<M: Manifest> Resource for Watched<M> {
    type DynamicType = ();
    /// Objects of all namespaces are watched.
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        M::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        M::API_VERSION.rsplit_once('/').map_or("", |(group, _)| group).into()
    }

    fn version((): &()) -> Cow<'_, str> {
        M::API_VERSION.rsplit_once('/').map_or(M::API_VERSION, |(_, version)| version).into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        M::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
