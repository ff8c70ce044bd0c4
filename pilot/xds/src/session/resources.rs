//! Published resources as a session sees them.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::version::Version;

/// Name of a resource, shared by the sessions.
pub type Name = Arc<str>;

/// Published state of one proxy: an immutable value.
///
/// States are expected to be closed: a resource refers to resources of the same state.
pub trait Resources {
    /// Lists the names of a wildcard subscription.
    fn names(&self, type_url: &str) -> Vec<Name>;

    /// Finds a resource by its name.
    fn find(&self, type_url: &str, name: &str) -> Option<Found>;

    /// Encodes a resource that [`Resources::find`] finds.
    fn body(&self, type_url: &str, name: &str) -> Bytes;

    /// Lists the references of a listener, route table or cluster.
    fn references(&self, type_url: &str, name: &str) -> Vec<Reference>;

    /// Compares with an older state. Names without a change are allowed in the answer.
    fn changes_since(&self, _older: &Self) -> Changes {
        Changes::All
    }
}

/// Resource without its body.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// The name, which all sessions share.
    pub name: Name,
    /// Version of the content.
    pub version: Version,
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
