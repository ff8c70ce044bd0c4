//! Messages of the envelope. Resources and nodes inside stay encoded.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

/// Request of delta xDS: a subscription, an ACK or a NACK.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeltaDiscoveryRequest {
    /// Encoded [`Node`]; in the first request of a stream only.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub node: Option<Bytes>,
    /// Type of the resources.
    #[prost(string, tag = "2")]
    pub type_url: String,
    /// Names to subscribe to.
    #[prost(string, repeated, tag = "3")]
    pub resource_names_subscribe: Vec<String>,
    /// Names to unsubscribe from.
    #[prost(string, repeated, tag = "4")]
    pub resource_names_unsubscribe: Vec<String>,
    /// Versions by name that the client has from an earlier stream.
    #[prost(btree_map = "string, string", tag = "5")]
    pub initial_resource_versions: BTreeMap<String, String>,
    /// Nonce of the acknowledged response.
    #[prost(string, tag = "6")]
    pub response_nonce: String,
    /// Reason of a NACK.
    #[prost(message, optional, tag = "7")]
    pub error_detail: Option<Status>,
}

/// Response of delta xDS.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeltaDiscoveryResponse {
    /// Version of the server's state, for debugging.
    #[prost(string, tag = "1")]
    pub system_version_info: String,
    /// New and changed resources.
    #[prost(message, repeated, tag = "2")]
    pub resources: Vec<Resource>,
    /// Type of the resources.
    #[prost(string, tag = "4")]
    pub type_url: String,
    /// Nonce that the ACK repeats.
    #[prost(string, tag = "5")]
    pub nonce: String,
    /// Names of removed resources.
    #[prost(string, repeated, tag = "6")]
    pub removed_resources: Vec<String>,
}

/// Resource of a [`DeltaDiscoveryResponse`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Resource {
    /// Version of this resource.
    #[prost(string, tag = "1")]
    pub version: String,
    /// The encoded resource.
    #[prost(message, optional, tag = "2")]
    pub resource: Option<Any>,
    /// Name of the resource.
    #[prost(string, tag = "3")]
    pub name: String,
    /// Other names of the resource.
    #[prost(string, repeated, tag = "4")]
    pub aliases: Vec<String>,
}

/// Request of state-of-the-world xDS: a subscription, an ACK or a NACK.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DiscoveryRequest {
    /// Version of the last accepted response.
    #[prost(string, tag = "1")]
    pub version_info: String,
    /// Encoded [`Node`]; in the first request of a stream only.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub node: Option<Bytes>,
    /// All subscribed names.
    #[prost(string, repeated, tag = "3")]
    pub resource_names: Vec<String>,
    /// Type of the resources.
    #[prost(string, tag = "4")]
    pub type_url: String,
    /// Nonce of the acknowledged response.
    #[prost(string, tag = "5")]
    pub response_nonce: String,
    /// Reason of a NACK.
    #[prost(message, optional, tag = "6")]
    pub error_detail: Option<Status>,
}

/// Response of state-of-the-world xDS.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DiscoveryResponse {
    /// Version that the ACK repeats.
    #[prost(string, tag = "1")]
    pub version_info: String,
    /// All resources of wildcard types, the changed ones of others.
    #[prost(message, repeated, tag = "2")]
    pub resources: Vec<Any>,
    /// Type of the resources.
    #[prost(string, tag = "4")]
    pub type_url: String,
    /// Nonce that the ACK repeats.
    #[prost(string, tag = "5")]
    pub nonce: String,
}

/// Message of any type, `google.protobuf.Any`. Clones share the bytes.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Any {
    /// Type of the message.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The encoded message.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// Error of a NACK, `google.rpc.Status`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Status {
    /// gRPC's status code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// The reason.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// The proxy as it presents itself. Envoy's list of extensions, hundreds of names, is dropped.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Node {
    /// `sidecar~ADDRESS~POD.NAMESPACE~DOMAIN`.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Name of the proxy's service.
    #[prost(string, tag = "2")]
    pub cluster: String,
    /// Encoded `google.protobuf.Struct`.
    #[prost(bytes = "bytes", tag = "3")]
    pub metadata: Bytes,
    /// Encoded `envoy.config.core.v3.Locality`.
    #[prost(bytes = "bytes", tag = "4")]
    pub locality: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_in_a_request_stays_encoded() {
        // A node with one of Envoy's fields that this type drops: user_agent_name, field 6.
        let encoded = b"\x0a\x01n\x12\x01c\x32\x05envoy".as_slice();
        let mut request = vec![0x0a, u8::try_from(encoded.len()).unwrap()];
        request.extend_from_slice(encoded);
        let request = DeltaDiscoveryRequest::decode(&*request).unwrap();
        let raw = request.node.unwrap();
        assert_eq!(raw, encoded);
        let node = Node::decode(raw).unwrap();
        assert_eq!((node.id.as_str(), node.cluster.as_str()), ("n", "c"));
    }
}
