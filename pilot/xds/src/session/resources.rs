//! Published resources as a session sees them.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::version::Version;

/// Name of a resource, shared by the sessions.
pub type Name = Arc<str>;

/// Published state of one proxy: an immutable value, whose clones share the content.
///
/// States are expected to be closed: a resource refers to resources of the same state.
pub trait Resources: Clone {
    /// Lists the names of a wildcard subscription.
    fn names(&self, type_url: &str) -> Vec<Name>;

    /// Number of the names of a wildcard subscription.
    fn count(&self, type_url: &str) -> usize;

    /// Finds a resource by its name.
    fn find(&self, type_url: &str, name: &str) -> Option<&Arc<EncodedResource>>;

    /// Compares with an older state. Names without a change are allowed in the answer.
    fn changes_since(&self, _older: &Self) -> Changes {
        Changes::All
    }
}

/// Encoded resource, shared by all proxies that have it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EncodedResource {
    /// The name.
    pub name: Name,
    /// Version of the content.
    pub version: Version,
    /// The encoded message.
    pub body: Bytes,
    /// Resources that a listener, route table or cluster needs.
    pub references: Vec<Reference>,
    /// True if wildcard subscriptions leave it out: it exists for clients that name it.
    pub on_demand: bool,
}

/// Type and name of a resource that another one needs.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Reference {
    /// Type of the resource.
    pub type_url: &'static str,
    /// Its name.
    pub name: Name,
}

/// Resources that may differ between two states.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Changes {
    /// Any resource.
    All,
    /// Types and names.
    Names(BTreeSet<(Arc<str>, Name)>),
}

/// Published resources of one type.
#[derive(Debug)]
pub(super) struct OfType<'a, R> {
    pub(super) type_url: &'a str,
    pub(super) resources: &'a R,
}

// A derived implementation would need `R: Copy`.
impl<R> Copy for OfType<'_, R> {}

impl<R> Clone for OfType<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, R: Resources> OfType<'a, R> {
    pub(super) fn names(self) -> Vec<Name> {
        self.resources.names(self.type_url)
    }

    pub(super) fn count(self) -> usize {
        self.resources.count(self.type_url)
    }

    pub(super) fn find(self, name: &str) -> Option<&'a Arc<EncodedResource>> {
        self.resources.find(self.type_url, name)
    }

    /// Returns the name with memory that all sessions share, if the resource exists.
    pub(super) fn shared_name(self, name: &str) -> Name {
        self.find(name).map_or_else(|| name.into(), |found| found.name.clone())
    }
}
