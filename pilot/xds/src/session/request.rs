//! Requests of both variants, decoded into one type.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::limits::{Close, Limits};
use crate::messages::{DeltaDiscoveryRequest, DiscoveryRequest, Node, Status};
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
        subscribe: Vec<String>,
        /// Names to drop.
        unsubscribe: Vec<String>,
        /// Versions by name that the client has from an earlier stream.
        initial: BTreeMap<String, String>,
    },
    /// State of the world: the whole subscription.
    Whole {
        /// All names.
        names: Vec<String>,
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
                let message = DeltaDiscoveryRequest::decode(frame)?;
                let subscription = Subscription::Changes {
                    subscribe: message.resource_names_subscribe,
                    unsubscribe: message.resource_names_unsubscribe,
                    initial: message.initial_resource_versions,
                };
                let (type_url, nonce) = (message.type_url, message.response_nonce);
                let error = message.error_detail;
                (message.node, Self { type_url, nonce, error, subscription })
            }
            Variant::StateOfTheWorld => {
                let message = DiscoveryRequest::decode(frame)?;
                let subscription = Subscription::Whole {
                    names: message.resource_names,
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
            let (type_url, limit) = (self.type_url.clone(), limits.names);
            if count > limit { Err(Close::Names { type_url, limit }) } else { Ok(()) }
        };
        let length = |name: &String| {
            let (type_url, length, limit) = (self.type_url.clone(), name.len(), limits.name_bytes);
            if length > limit {
                return Err(Close::NameLength { type_url, length, limit });
            }
            Ok(())
        };
        match &self.subscription {
            Subscription::Changes { subscribe, unsubscribe, initial } => {
                count(subscribe.len().max(unsubscribe.len()).max(initial.len()))?;
                let names = subscribe.iter().chain(unsubscribe).chain(initial.keys());
                names.chain([&self.type_url]).try_for_each(length)
            }
            Subscription::Whole { names, .. } => {
                count(names.len())?;
                names.iter().chain([&self.type_url]).try_for_each(length)
            }
        }
    }
}
