//! Building blocks of Envoy's messages.

use std::net::IpAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ApiVersion, ConfigSource, Metadata, SocketAddress, address,
    config_source,
};
use envoy_types::pb::envoy::config::listener::v3::{Filter, filter};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{
    self as protobuf, Any, BoolValue, ListValue, Struct, UInt32Value, Value,
};
use prost::{Message, Name};

pub(super) fn any<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

#[allow(clippy::unnecessary_wraps, reason = "fields of messages are optional")]
pub(super) fn number(value: u32) -> Option<UInt32Value> {
    Some(UInt32Value { value })
}

#[allow(clippy::unnecessary_wraps, reason = "fields of messages are optional")]
pub(super) fn switch(value: bool) -> Option<BoolValue> {
    Some(BoolValue { value })
}

#[allow(clippy::unnecessary_wraps, reason = "fields of messages are optional")]
pub(super) fn duration(value: Duration) -> Option<protobuf::Duration> {
    Some(protobuf::Duration {
        seconds: i64::try_from(value.as_secs()).unwrap_or(i64::MAX),
        nanos: value.subsec_nanos().cast_signed(),
    })
}

pub(super) fn address(host: &(impl ToString + ?Sized), port: u16) -> Address {
    Address { address: Some(address::Address::SocketAddress(socket_address(host, port))) }
}

pub(super) fn socket_address(host: &(impl ToString + ?Sized), port: u16) -> SocketAddress {
    SocketAddress {
        address: host.to_string(),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ..SocketAddress::default()
    }
}

/// Source of resources on the stream that the listener or cluster came from. Envoy waits for them
/// without a timeout: a resource that is late must not make it serve an incomplete configuration.
pub(super) fn ads() -> ConfigSource {
    let ads = config_source::ConfigSourceSpecifier::Ads(AggregatedConfigSource {});
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        initial_fetch_timeout: duration(Duration::ZERO),
        config_source_specifier: Some(ads),
        ..ConfigSource::default()
    }
}

pub(super) fn network_filter<M: Message + Name>(name: &str, config: &M) -> Filter {
    Filter {
        name: name.to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(any(config))),
    }
}

pub(super) fn text(value: &str) -> Value {
    Value { kind: Some(Kind::StringValue(value.to_owned())) }
}

pub(super) fn list(values: Vec<Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values })) }
}

pub(super) fn object<const N: usize>(fields: [(&str, Value); N]) -> Struct {
    Struct { fields: fields.map(|(key, value)| (key.to_owned(), value)).into() }
}

pub(super) fn metadata(filter: &str, fields: Struct) -> Metadata {
    Metadata { filter_metadata: [(filter.to_owned(), fields)].into(), ..Metadata::default() }
}

/// Host as it stands in a URL: IPv6 addresses in brackets.
pub(super) fn url_host(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}
