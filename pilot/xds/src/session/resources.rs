//! Published resources as a session sees them.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::name::{Name, NameKey, NameRef};
use super::version::Version;
use crate::messages::{Any, Resource};

/// Published state of one proxy: an immutable value, whose clones share the content.
///
/// States are expected to be closed: a resource refers to resources of the same state.
pub trait Resources: Clone {
    /// Lists the names of a wildcard subscription.
    fn names(&self, type_url: &str) -> Vec<Name>;

    /// Number of the names of a wildcard subscription.
    fn count(&self, type_url: &str) -> usize;

    /// Finds a resource by its name.
    fn find(&self, type_url: &str, name: &dyn NameKey) -> Option<&Arc<EncodedResource>>;

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
    /// Resources that a listener, route table or cluster needs.
    pub references: Vec<Reference>,
    /// True if wildcard subscriptions leave it out: it exists for clients that name it.
    pub on_demand: bool,
    /// The resource as responses of delta xDS have it, with its name and version: thousands of
    /// proxies get the same bytes.
    pub(super) delta: Bytes,
    /// The `Any` within.
    pub(super) any: Bytes,
    /// The encoded message within.
    body: Bytes,
}

impl EncodedResource {
    /// Encodes a resource. `body` is the encoded message.
    pub fn new(
        type_url: &str,
        name: Name,
        version: Version,
        body: Bytes,
        references: Vec<Reference>,
    ) -> Self {
        let length = body.len();
        let any = Any { type_url: type_url.to_owned(), value: body };
        let any_length = any.encoded_len();
        let mut resource = Resource {
            version: version.to_string(),
            resource: None,
            name: String::new(),
            aliases: Vec::new(),
        };
        // The fields follow each other in the order of their numbers.
        let begin = resource.encoded_len() + 1 + prost::length_delimiter_len(any_length);
        resource.resource = Some(any);
        resource.name = name.to_string();
        let delta = Bytes::from(resource.encode_to_vec());
        let any = delta.slice(begin..begin + any_length);
        let body = any.slice(any_length - length..);
        Self { name, version, references, on_demand: false, delta, any, body }
    }

    /// The encoded message.
    pub fn body(&self) -> &Bytes {
        &self.body
    }
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

    pub(super) fn find(self, name: &dyn NameKey) -> Option<&'a Arc<EncodedResource>> {
        self.resources.find(self.type_url, name)
    }

    /// Returns the name with memory that all sessions share, if the resource exists.
    pub(super) fn shared_name(self, name: NameRef<'_>) -> Name {
        self.find(&name).map_or_else(|| name.into(), |found| found.name.clone())
    }
}
