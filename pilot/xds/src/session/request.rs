//! Requests of both variants, decoded into one type.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::limits::{Close, Limits};
use super::name::Name;
use super::version::Version;
use crate::messages::{DiscoveryRequest, Node, Status};
use crate::service::Variant;

/// Request of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Type of the resources.
    pub type_url: String,
    /// Nonce of the acknowledged response; empty if the request acknowledges none.
    pub nonce: String,
    /// Reason of a NACK.
    pub error: Option<Status>,
    /// The names.
    pub subscription: Subscription,
}

/// Names of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Subscription {
    /// Delta: changes of the subscription.
    Changes {
        /// Names to add.
        subscribe: Vec<Name>,
        /// Names to drop.
        unsubscribe: Vec<Name>,
        /// Versions by name that the client has from an earlier stream.
        initial: BTreeMap<Name, Version>,
    },
    /// State of the world: the whole subscription.
    Whole {
        /// All names.
        names: Vec<Name>,
        /// Version of the last accepted response.
        version: String,
    },
}

impl Request {
    /// Decodes a frame, and the node in it.
    pub fn decode(
        variant: Variant,
        frame: Bytes,
        limits: &Limits,
    ) -> Result<(Self, Option<Node>), Close> {
        let (node, request) = match variant {
            Variant::Delta => {
                let message = DeltaRequest::decode(frame)?;
                let initial = message.initial.iter().map(|InitialVersion { name, version }| {
                    Ok((to_name(name)?, Version::parse(text(version)?)))
                });
                let subscription = Subscription::Changes {
                    subscribe: to_names(&message.subscribe)?,
                    unsubscribe: to_names(&message.unsubscribe)?,
                    initial: initial.collect::<Result<_, Close>>()?,
                };
                let (type_url, nonce) = (message.type_url, message.nonce);
                let error = message.error_detail;
                (message.node, Self { type_url, nonce, error, subscription })
            }
            Variant::StateOfTheWorld => {
                let message = DiscoveryRequest::decode(frame)?;
                let subscription = Subscription::Whole {
                    names: message.resource_names.into_iter().map(Name::from).collect(),
                    version: message.version_info,
                };
                let (type_url, nonce) = (message.type_url, message.response_nonce);
                let error = message.error_detail;
                (message.node, Self { type_url, nonce, error, subscription })
            }
        };
        let node = node.map(Node::decode).transpose()?;
        if let Some(node) = &node {
            let (length, limit) = (node.metadata.len(), limits.metadata_bytes);
            if length > limit {
                return Err(Close::Metadata { length, limit });
            }
        }
        Ok((request, node))
    }

    /// Checks the lengths and the number of names.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), Close> {
        let count = |count: usize| {
            let limit = limits.names;
            if count > limit {
                return Err(Close::Names { type_url: self.type_url.clone(), limit });
            }
            Ok(())
        };
        let length = |name: &str| {
            let (length, limit) = (name.len(), limits.name_bytes);
            if length > limit {
                let type_url = self.type_url.clone();
                return Err(Close::NameLength { type_url, length, limit });
            }
            Ok(())
        };
        match &self.subscription {
            Subscription::Changes { subscribe, unsubscribe, initial } => {
                count(subscribe.len().max(unsubscribe.len()).max(initial.len()))?;
                let mut names = subscribe.iter().chain(unsubscribe).chain(initial.keys());
                names.try_for_each(|name| length(name))?;
            }
            Subscription::Whole { names, .. } => {
                count(names.len())?;
                names.iter().try_for_each(|name| length(name))?;
            }
        }
        length(&self.type_url)
    }
}

/// [`DeltaDiscoveryRequest`](crate::messages::DeltaDiscoveryRequest) whose names stay in the frame:
/// a client that reconnects names all of its resources.
#[derive(Clone, PartialEq, Message)]
struct DeltaRequest {
    #[prost(bytes = "bytes", optional, tag = "1")]
    node: Option<Bytes>,
    #[prost(string, tag = "2")]
    type_url: String,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    subscribe: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    unsubscribe: Vec<Bytes>,
    #[prost(message, repeated, tag = "5")]
    initial: Vec<InitialVersion>,
    #[prost(string, tag = "6")]
    nonce: String,
    #[prost(message, optional, tag = "7")]
    error_detail: Option<Status>,
}

/// Entry of `initial_resource_versions`: a map is encoded as its entries.
#[derive(Clone, PartialEq, Message)]
struct InitialVersion {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    version: Bytes,
}

fn to_names(names: &[Bytes]) -> Result<Vec<Name>, Close> {
    names.iter().map(to_name).collect()
}

fn to_name(name: &Bytes) -> Result<Name, Close> {
    text(name).map(Name::from)
}

/// The text of a field of type `string`, which has to be UTF-8.
fn text(field: &Bytes) -> Result<&str, Close> {
    std::str::from_utf8(field).map_err(|_| Close::Text)
}
