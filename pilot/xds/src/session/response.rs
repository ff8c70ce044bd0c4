//! Responses, encoded for either variant.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::resources::{EncodedResource, Name};
use super::version::Version;
use crate::messages::{Any, DeltaDiscoveryResponse, DiscoveryResponse, Resource};
use crate::service::Variant;

/// Response to a client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Response {
    /// Type of the resources.
    pub type_url: Arc<str>,
    /// Nonce that the ACK repeats.
    pub nonce: u32,
    /// Version of the client's whole state of this type, once it has accepted the response. Only
    /// with state of the world.
    pub state: Option<Version>,
    /// The resources.
    pub resources: Vec<Arc<EncodedResource>>,
    /// Names of removed resources. With state of the world their absence says so.
    pub removed: Vec<Name>,
}

impl Response {
    /// Encodes the response.
    pub fn encode(self, variant: Variant) -> Bytes {
        let any = |value| Any { type_url: self.type_url.to_string(), value };
        let nonce = self.nonce.to_string();
        let type_url = self.type_url.to_string();
        let frame = match variant {
            Variant::Delta => {
                let resources = self.resources.iter().map(|resource| Resource {
                    version: resource.version.to_string(),
                    resource: Some(any(resource.body.clone())),
                    name: resource.name.to_string(),
                    aliases: Vec::new(),
                });
                DeltaDiscoveryResponse {
                    system_version_info: String::new(),
                    resources: resources.collect(),
                    type_url,
                    nonce,
                    removed_resources: self.removed.iter().map(ToString::to_string).collect(),
                }
                .encode_to_vec()
            }
            Variant::StateOfTheWorld => DiscoveryResponse {
                version_info: self.state.map(|state| state.to_string()).unwrap_or_default(),
                resources: self.resources.iter().map(|found| any(found.body.clone())).collect(),
                type_url,
                nonce,
            }
            .encode_to_vec(),
        };
        frame.into()
    }
}
