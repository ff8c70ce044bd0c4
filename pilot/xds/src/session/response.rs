//! Responses, encoded for either variant.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::name::Name;
use super::resources::EncodedResource;
use super::version::Version;
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
        let nonce = self.nonce.to_string();
        let type_url = self.type_url.to_string();
        let frame = match variant {
            Variant::Delta => DeltaResponse {
                resources: self.resources.iter().map(|found| found.delta.clone()).collect(),
                type_url,
                nonce,
                removed_resources: self.removed.iter().map(ToString::to_string).collect(),
            }
            .encode_to_vec(),
            Variant::StateOfTheWorld => WholeResponse {
                version_info: self.state.map(|state| state.to_string()).unwrap_or_default(),
                resources: self.resources.iter().map(|found| found.any.clone()).collect(),
                type_url,
                nonce,
            }
            .encode_to_vec(),
        };
        frame.into()
    }
}

/// [`DeltaDiscoveryResponse`](crate::messages::DeltaDiscoveryResponse) of encoded resources.
#[derive(Clone, PartialEq, Message)]
struct DeltaResponse {
    #[prost(bytes = "bytes", repeated, tag = "2")]
    resources: Vec<Bytes>,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, tag = "5")]
    nonce: String,
    #[prost(string, repeated, tag = "6")]
    removed_resources: Vec<String>,
}

/// [`DiscoveryResponse`](crate::messages::DiscoveryResponse) of encoded resources.
#[derive(Clone, PartialEq, Message)]
struct WholeResponse {
    #[prost(string, tag = "1")]
    version_info: String,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    resources: Vec<Bytes>,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, tag = "5")]
    nonce: String,
}
