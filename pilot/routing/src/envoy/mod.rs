//! Resources of Envoy. A generator first reduces the mesh to the inputs of one resource, and then
//! builds the resource of these inputs alone. So equal inputs mean an equal resource, whichever
//! proxy it is for, and a version is a hash of the inputs.

pub mod clusters;
pub mod context;
pub mod endpoints;
mod filters;
pub mod listeners;
mod message;
pub mod names;
pub mod routes;
pub mod tls;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

use bytes::Bytes;
use pilot_xds::messages::Any;
use prost::{Message, Name};

use crate::version::version;
use context::{Context, Origin};

/// Generator of the resources of one type.
pub trait Generator {
    /// All that a resource depends on.
    type Inputs: Clone + Debug + Eq + Hash + Send + Sync + 'static;
    /// The resource.
    type Message: Message + Name;

    /// Names of the resources that a proxy gets unasked, or may ask for.
    fn names(context: &Context<'_>) -> BTreeSet<String>;

    /// Inputs of a resource; `None` if the proxy has no such resource.
    fn inputs(context: &Context<'_>, name: &str) -> Option<Self::Inputs>;

    /// Builds the resource.
    fn build(inputs: &Self::Inputs) -> Self::Message;

    /// Resources that this one refers to.
    fn references(inputs: &Self::Inputs) -> BTreeSet<Reference>;

    /// Objects that made the resource, for diagnosis. They are no part of the inputs: another
    /// object with the same effect leaves the resource as it is.
    fn why(context: &Context<'_>, name: &str) -> BTreeSet<Origin>;
}

/// Reference of a resource to another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    /// A cluster by its name.
    Cluster(String),
    /// Endpoints by their cluster's name.
    Endpoints(String),
    /// A route configuration by its name.
    Routes(String),
}

/// Encoded resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Hash of the inputs.
    pub version: String,
    /// The message. Clones share the bytes.
    pub message: Any,
    /// Resources that this one refers to.
    pub references: BTreeSet<Reference>,
}

/// Version of the resource of these inputs.
pub fn resource_version<G: Generator>(inputs: &G::Inputs) -> String {
    version(REVISION, &G::Message::type_url(), inputs)
}

/// Builds and encodes the resource of these inputs.
pub fn generate<G: Generator>(inputs: &G::Inputs) -> Resource {
    let message = G::build(inputs);
    Resource {
        version: resource_version::<G>(inputs),
        message: Any {
            type_url: G::Message::type_url(),
            value: Bytes::from(message.encode_to_vec()),
        },
        references: G::references(inputs),
    }
}

/// Revision of the generators. It rises with every change of a generated message, so that proxies
/// get the new one from an upgraded server. A test compares it with the golden files.
pub const REVISION: u32 = 1;
