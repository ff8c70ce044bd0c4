//! Resources of Envoy. A generator first reduces the mesh to the inputs of one resource, and then
//! builds the resource of these inputs alone. So equal inputs mean an equal resource, whichever
//! proxy it is for, and a version is a hash of the inputs.

mod access_log;
pub mod clusters;
pub mod context;
pub mod endpoints;
mod filters;
pub mod listeners;
mod message;
pub mod name_tables;
pub mod names;
mod retries;
pub mod routes;
pub mod tls;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

use bytes::Bytes;
use pilot_xds::messages::Any;
use pilot_xds::session::{Name, Reference, Version};
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, ROUTE};
use prost::Message;

use context::{Context, Origin};

/// Generator of the resources of one type.
pub trait Generator {
    /// All that a resource depends on.
    type Inputs: Clone + Debug + Eq + Hash + Send + Sync + 'static;
    /// The resource.
    type Message: Message;
    /// Type URL of the resource.
    const TYPE_URL: &'static str;

    /// Names of the resources that a proxy gets unasked, or may ask for.
    fn names(context: &Context<'_>) -> BTreeSet<String>;

    /// Inputs of a resource; `None` if the proxy has no such resource.
    fn inputs(context: &Context<'_>, name: &str) -> Option<Self::Inputs>;

    /// Builds the resource.
    fn build(inputs: &Self::Inputs) -> Self::Message;

    /// Resources that this one refers to.
    fn references(inputs: &Self::Inputs) -> Vec<Reference>;

    /// Objects that made the resource, for diagnosis. They are no part of the inputs: another
    /// object with the same effect leaves the resource as it is.
    fn why(context: &Context<'_>, name: &str) -> BTreeSet<Origin>;
}

/// Encoded resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Hash of the inputs.
    pub version: Version,
    /// The message. Clones share the bytes.
    pub message: Any,
    /// Resources that this one refers to.
    pub references: Vec<Reference>,
}

/// Version of the resource of these inputs: a hash over the revision of the generators, the type
/// and the inputs. Encoded messages are not hashed: equal messages with maps may differ.
pub fn resource_version<G: Generator>(inputs: &G::Inputs) -> Version {
    Version::new(&(REVISION, G::TYPE_URL, inputs))
}

/// Builds and encodes the resource of these inputs, whose [`resource_version`] the caller knows.
pub fn generate<G: Generator>(inputs: &G::Inputs, version: Version) -> Resource {
    let message = G::build(inputs);
    Resource {
        version,
        message: Any {
            type_url: G::TYPE_URL.to_owned(),
            value: Bytes::from(message.encode_to_vec()),
        },
        references: G::references(inputs),
    }
}

fn to_cluster(name: impl Into<Name>) -> Reference {
    Reference { type_url: CLUSTER, name: name.into() }
}

fn to_endpoints(name: impl Into<Name>) -> Reference {
    Reference { type_url: ENDPOINT, name: name.into() }
}

fn to_routes(name: impl Into<Name>) -> Reference {
    Reference { type_url: ROUTE, name: name.into() }
}

/// Revision of the generators. It rises with every change of a generated message, so that proxies
/// get the new one from an upgraded server. A test compares it with the golden files.
pub const REVISION: u32 = 5;
