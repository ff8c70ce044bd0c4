//! Changes of objects, as an adapter reports them.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use crate::namespace::Namespace;
use crate::node::Node;
use crate::pod::Pod;
use crate::service::Service;
use crate::slice::Slice;

/// Name of an object within its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Namespace; empty for nodes and namespaces.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// Key of an object.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl Display for ObjectKey {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(formatter, "{}/", self.namespace)?;
        }
        formatter.write_str(&self.name)
    }
}

/// Change of the objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Services.
    Services(Update<Service>),
    /// Slices of endpoints.
    Slices(Update<Slice>),
    /// Pods.
    Pods(Update<Pod>),
    /// Nodes.
    Nodes(Update<Node>),
    /// Namespaces.
    Namespaces(Update<Namespace>),
}

impl Event {
    /// Kind of the objects, and the action: `list`, `update` or `delete`.
    pub fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::Services(update) => ("Service", update.action()),
            Self::Slices(update) => ("EndpointSlice", update.action()),
            Self::Pods(update) => ("Pod", update.action()),
            Self::Nodes(update) => ("Node", update.action()),
            Self::Namespaces(update) => ("Namespace", update.action()),
        }
    }
}

/// Change of the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update<T> {
    /// An object was added or changed.
    Apply(T),
    /// An object was deleted.
    Delete(ObjectKey),
    /// All objects of the kind: any other one is gone. The last of equal keys counts.
    Replace(Vec<T>),
}

impl<T> Update<T> {
    fn action(&self) -> &'static str {
        match self {
            Self::Apply(_) => "update",
            Self::Delete(_) => "delete",
            Self::Replace(_) => "list",
        }
    }
}
