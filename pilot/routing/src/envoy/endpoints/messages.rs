//! Envoy's messages of endpoints, with the fields in use. A mesh has more endpoints than anything
//! else; metadata in Envoy's complete types is two hash maps per endpoint.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

/// `envoy.config.endpoint.v3.ClusterLoadAssignment`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ClusterLoadAssignment {
    /// Name of the cluster.
    #[prost(string, tag = "1")]
    pub cluster_name: String,
    /// Endpoints by priority and locality.
    #[prost(message, repeated, tag = "2")]
    pub endpoints: Vec<LocalityLbEndpoints>,
}

/// `envoy.config.endpoint.v3.LocalityLbEndpoints`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LocalityLbEndpoints {
    /// Place of the endpoints.
    #[prost(message, optional, tag = "1")]
    pub locality: Option<Locality>,
    /// Endpoints.
    #[prost(message, repeated, tag = "2")]
    pub endpoints: Vec<LbEndpoint>,
    /// Weight among the localities.
    #[prost(message, optional, tag = "3")]
    pub weight: Option<u32>,
    /// Priority; the lowest takes the requests.
    #[prost(uint32, tag = "5")]
    pub priority: u32,
}

/// `envoy.config.core.v3.Locality`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Locality {
    /// Region.
    #[prost(string, tag = "1")]
    pub region: String,
    /// Zone.
    #[prost(string, tag = "2")]
    pub zone: String,
    /// Part of the zone.
    #[prost(string, tag = "3")]
    pub sub_zone: String,
}

/// `envoy.config.endpoint.v3.LbEndpoint`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LbEndpoint {
    /// Address.
    #[prost(message, optional, tag = "1")]
    pub endpoint: Option<Endpoint>,
    /// `envoy.config.core.v3.HealthStatus`.
    #[prost(int32, tag = "2")]
    pub health: i32,
    /// Encoded `envoy.config.core.v3.Metadata`.
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub metadata: Option<Bytes>,
    /// Weight within the locality.
    #[prost(message, optional, tag = "4")]
    pub weight: Option<u32>,
}

/// `envoy.config.endpoint.v3.Endpoint`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Endpoint {
    /// Address.
    #[prost(message, optional, tag = "1")]
    pub address: Option<Address>,
}

/// `envoy.config.core.v3.Address`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Address {
    /// Address and port.
    #[prost(message, optional, tag = "1")]
    pub socket_address: Option<SocketAddress>,
}

/// `envoy.config.core.v3.SocketAddress`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct SocketAddress {
    /// IP address.
    #[prost(string, tag = "2")]
    pub address: String,
    /// Port.
    #[prost(uint32, tag = "3")]
    pub port: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(btree_map = "string, message", tag = "1")]
    filters: BTreeMap<String, Struct>,
}

#[derive(Clone, PartialEq, Message)]
struct Struct {
    #[prost(btree_map = "string, message", tag = "1")]
    fields: BTreeMap<String, Text>,
}

/// `google.protobuf.Value` of a text.
#[derive(Clone, PartialEq, Message)]
struct Text {
    #[prost(string, optional, tag = "3")]
    text: Option<String>,
}

/// Encodes metadata with one text per filter: filter, key, value.
pub(super) fn encoded_metadata<'a>(
    texts: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
) -> Bytes {
    let filters = texts.map(|(filter, key, text)| {
        let fields = [(key.to_owned(), Text { text: Some(text.to_owned()) })].into();
        (filter.to_owned(), Struct { fields })
    });
    Metadata { filters: filters.collect() }.encode_to_vec().into()
}

/// Health that Envoy does not doubt.
pub(super) const HEALTH_UNKNOWN: i32 = 0;
/// Not ready.
pub(super) const HEALTH_UNHEALTHY: i32 = 2;
/// Serves what it has and ends.
pub(super) const HEALTH_DRAINING: i32 = 3;
