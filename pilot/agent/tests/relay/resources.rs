//! Encoded resources for Envoy: a listener that passes connections to a cluster of one endpoint.

use std::net::SocketAddr;

use pilot_xds::messages::Any;
use prost::Message;

/// Returns a cluster with an endpoint.
pub(crate) fn cluster(name: &str, endpoint: SocketAddr) -> Vec<u8> {
    let endpoint = LbEndpoint { endpoint: Some(Endpoint { address: Some(address(endpoint)) }) };
    let endpoints = vec![LocalityLbEndpoints { lb_endpoints: vec![endpoint] }];
    let assignment = ClusterLoadAssignment { cluster_name: name.to_owned(), endpoints };
    // Type 0 is STATIC.
    Cluster { name: name.to_owned(), r#type: 0, load_assignment: Some(assignment) }.encode_to_vec()
}

/// Returns a listener that passes TCP connections to a cluster.
pub(crate) fn listener(name: &str, bind: SocketAddr, cluster: &str) -> Vec<u8> {
    let proxy = TcpProxy { stat_prefix: "tcp".to_owned(), cluster: cluster.to_owned() };
    let type_url = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
    let value = proxy.encode_to_vec().into();
    let filter = Filter {
        name: "envoy.filters.network.tcp_proxy".to_owned(),
        typed_config: Some(Any { type_url: type_url.to_owned(), value }),
    };
    Listener {
        name: name.to_owned(),
        address: Some(address(bind)),
        filter_chains: vec![FilterChain { filters: vec![filter] }],
    }
    .encode_to_vec()
}

fn address(address: SocketAddr) -> Address {
    let socket =
        SocketAddress { address: address.ip().to_string(), port_value: u32::from(address.port()) };
    Address { socket_address: Some(socket) }
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Cluster {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, tag = "2")]
    r#type: i32,
    #[prost(message, optional, tag = "33")]
    load_assignment: Option<ClusterLoadAssignment>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct ClusterLoadAssignment {
    #[prost(string, tag = "1")]
    cluster_name: String,
    #[prost(message, repeated, tag = "2")]
    endpoints: Vec<LocalityLbEndpoints>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct LocalityLbEndpoints {
    #[prost(message, repeated, tag = "2")]
    lb_endpoints: Vec<LbEndpoint>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct LbEndpoint {
    #[prost(message, optional, tag = "1")]
    endpoint: Option<Endpoint>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Endpoint {
    #[prost(message, optional, tag = "1")]
    address: Option<Address>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Address {
    #[prost(message, optional, tag = "1")]
    socket_address: Option<SocketAddress>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct SocketAddress {
    #[prost(string, tag = "2")]
    address: String,
    #[prost(uint32, tag = "3")]
    port_value: u32,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Listener {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    address: Option<Address>,
    #[prost(message, repeated, tag = "3")]
    filter_chains: Vec<FilterChain>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct FilterChain {
    #[prost(message, repeated, tag = "3")]
    filters: Vec<Filter>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Filter {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "4")]
    typed_config: Option<Any>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct TcpProxy {
    #[prost(string, tag = "1")]
    stat_prefix: String,
    #[prost(string, tag = "2")]
    cluster: String,
}
