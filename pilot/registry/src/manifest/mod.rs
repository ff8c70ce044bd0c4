//! Objects as the API server and files write them, with the fields that the model needs. This is
//! the one conversion into values of the model.

mod metadata;
mod namespace;
mod node;
mod pod;
mod service;
mod slice;

use std::fmt::Display;
use std::sync::Arc;

use thiserror::Error;

pub use self::metadata::Metadata;
pub use self::namespace::NamespaceManifest;
pub use self::node::NodeManifest;
pub use self::pod::PodManifest;
pub use self::service::ServiceManifest;
pub use self::slice::SliceManifest;
use crate::event::ObjectKey;

/// Settings of the mesh that complete objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectDefaults {
    /// Domain of the cluster, `cluster.local`.
    pub domain: Arc<str>,
    /// Visibility of services without an annotation: `defaultServiceExportTo`. Empty means all.
    pub export_to: Vec<String>,
}

impl Default for ObjectDefaults {
    fn default() -> Self {
        Self { domain: "cluster.local".into(), export_to: Vec::new() }
    }
}

/// Kind of objects with its conversion.
pub trait Manifest: Sized {
    /// Value of the model.
    type Object;
    /// `kind` of the objects.
    const KIND: &'static str;
    /// `apiVersion` of the objects.
    const API_VERSION: &'static str;
    /// Name of the objects in paths of the API and in roles.
    const PLURAL: &'static str;

    /// The object's metadata.
    fn metadata(&mut self) -> &mut Metadata;

    /// Converts the object. `None` if the mesh has no use for it.
    fn convert(self, defaults: &ObjectDefaults) -> Result<Option<Self::Object>, InvalidObject>;
}

/// Object that cannot be part of the model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{kind} {key}: {problem}")]
pub struct InvalidObject {
    /// Kind of the object.
    pub kind: &'static str,
    /// Name of the object.
    pub key: ObjectKey,
    /// The problem.
    pub problem: String,
}

impl InvalidObject {
    fn new<M: Manifest>(metadata: &Metadata, problem: &dyn Display) -> Self {
        Self { kind: M::KIND, key: metadata.key(), problem: problem.to_string() }
    }
}
