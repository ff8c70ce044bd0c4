//! Envoy's resources: connections pass through to their original destination.

use envoy_types::pb::envoy::config::accesslog::v3::AccessLog;
use envoy_types::pb::envoy::config::accesslog::v3::access_log;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, DiscoveryType, LbPolicy,
};
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::substitution_format_string::Format;
use envoy_types::pb::envoy::config::core::v3::{
    Address, BindConfig, DataSource, ExtraSourceAddress, Node, SocketAddress,
    SubstitutionFormatString, address,
};
use envoy_types::pb::envoy::config::listener::v3::listener_filter;
use envoy_types::pb::envoy::config::listener::v3::{
    AdditionalAddress, Filter, FilterChain, Listener, ListenerFilter, filter,
};
use envoy_types::pb::envoy::config::rbac::v3::{
    Permission, Policy, Principal, Rbac, permission, principal,
};
use envoy_types::pb::envoy::extensions::access_loggers::stream::v3::StdoutAccessLog;
use envoy_types::pb::envoy::extensions::access_loggers::stream::v3::stdout_access_log::AccessLogFormat;
use envoy_types::pb::envoy::extensions::filters::listener::original_dst::v3::OriginalDst;
use envoy_types::pb::envoy::extensions::filters::listener::original_src::v3::OriginalSrc;
use envoy_types::pb::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Any, BoolValue, Duration};
use pilot_agent::relay::NameTable;
use prost::{Message, Name};

/// A resource with its name.
pub(super) struct NamedResource {
    pub(super) name: String,
    pub(super) message: Any,
}

/// Returns the resources of a type for a proxy.
pub(super) fn resources(type_url: &str, proxy: &Node, names: &NameTable) -> Vec<NamedResource> {
    let is_sidecar = proxy.id.starts_with("sidecar~");
    match type_url {
        _ if !is_sidecar => Vec::new(),
        url if url == Cluster::type_url() => {
            let interception = Interception::of_proxy(proxy);
            let clusters = [original_destination(OUTBOUND), inbound_cluster(interception)];
            clusters.map(|cluster| named(cluster.name.clone(), &cluster)).into()
        }
        url if url == Listener::type_url() => {
            let interception = Interception::of_proxy(proxy);
            let listeners = [outbound_listener(), inbound_listener(interception)];
            listeners.map(|listener| named(listener.name.clone(), &listener)).into()
        }
        NAME_TABLE => {
            let message = Any { type_url: NAME_TABLE.to_owned(), value: names.encode_to_vec() };
            vec![NamedResource { name: String::new(), message }]
        }
        _ => Vec::new(),
    }
}

/// Capture of connections, `INTERCEPTION_MODE` of the proxy's metadata.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Interception {
    Redirect,
    Tproxy,
}

impl Interception {
    fn of_proxy(proxy: &Node) -> Self {
        let mode = proxy.metadata.as_ref().and_then(|data| data.fields.get("INTERCEPTION_MODE"));
        match mode.and_then(|value| value.kind.as_ref()) {
            Some(Kind::StringValue(mode)) if mode == "TPROXY" => Self::Tproxy,
            _ => Self::Redirect,
        }
    }
}

/// Returns the outbound listener, which hands connections over to the listener of their
/// destination, if there is one.
fn outbound_listener() -> Listener {
    Listener {
        use_original_dst: Some(BoolValue { value: true }),
        ..capturing_listener(OUTBOUND, 15001, Vec::new())
    }
}

/// Returns the inbound listener. With TPROXY a connection keeps its destination. The proxy's
/// connection to the application has the client's source address, and the mark by which the rules
/// distinguish it from the client's.
fn inbound_listener(interception: Interception) -> Listener {
    let mut filters = vec![original_destination_filter()];
    let transparent = interception == Interception::Tproxy;
    if transparent {
        let source = OriginalSrc { mark: TPROXY_MARK, ..OriginalSrc::default() };
        filters.push(listener_filter("original_src", &source));
    }
    Listener {
        transparent: transparent.then_some(BoolValue { value: true }),
        ..capturing_listener(INBOUND, 15006, filters)
    }
}

fn capturing_listener(name: &str, port: u16, listener_filters: Vec<ListenerFilter>) -> Listener {
    let ipv6 =
        AdditionalAddress { address: Some(address("::", port)), ..AdditionalAddress::default() };
    Listener {
        name: name.to_owned(),
        address: Some(address("0.0.0.0", port)),
        additional_addresses: vec![ipv6],
        listener_filters,
        filter_chains: vec![FilterChain {
            filters: vec![counter(name), passthrough(name)],
            ..FilterChain::default()
        }],
        ..Listener::default()
    }
}

/// Returns a filter that allows every connection, and counts those with data. Istio's selection of
/// statistics leaves the counters of connections out, and keeps this one.
fn counter(name: &str) -> Filter {
    let everyone = Policy {
        permissions: vec![Permission { rule: Some(permission::Rule::Any(true)) }],
        principals: vec![Principal { identifier: Some(principal::Identifier::Any(true)) }],
        ..Policy::default()
    };
    let rules = Rbac { policies: [("all".to_owned(), everyone)].into(), ..Rbac::default() };
    let rbac = NetworkRbac {
        rules: Some(rules),
        stat_prefix: format!("{name}."),
        ..NetworkRbac::default()
    };
    filter("rbac", &rbac)
}

fn passthrough(name: &str) -> Filter {
    let proxy = TcpProxy {
        stat_prefix: name.to_owned(),
        cluster_specifier: Some(ClusterSpecifier::Cluster(name.to_owned())),
        access_log: vec![access_log(name)],
        ..TcpProxy::default()
    };
    filter("tcp_proxy", &proxy)
}

/// Returns the access log: one line per connection, with the original destination, in the
/// container's log.
fn access_log(direction: &str) -> AccessLog {
    let line = format!(
        "{direction} from %DOWNSTREAM_REMOTE_ADDRESS% to %DOWNSTREAM_LOCAL_ADDRESS% flags \
         %RESPONSE_FLAGS%\n"
    );
    let source =
        DataSource { specifier: Some(Specifier::InlineString(line)), ..DataSource::default() };
    let format = SubstitutionFormatString {
        format: Some(Format::TextFormatSource(source)),
        ..SubstitutionFormatString::default()
    };
    let log = StdoutAccessLog { access_log_format: Some(AccessLogFormat::LogFormat(format)) };
    AccessLog {
        name: "stdout".to_owned(),
        config_type: Some(access_log::ConfigType::TypedConfig(any(&log))),
        ..AccessLog::default()
    }
}

fn original_destination(name: &str) -> Cluster {
    Cluster {
        name: name.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::OriginalDst.into())),
        lb_policy: LbPolicy::ClusterProvided.into(),
        connect_timeout: Some(Duration { seconds: 5, nanos: 0 }),
        ..Cluster::default()
    }
}

/// Binds connections to the application to `127.0.0.6` and `::6`. From there a connection to the
/// pod's own address is not captured again.
fn inbound_cluster(interception: Interception) -> Cluster {
    let cluster = original_destination(INBOUND);
    if interception == Interception::Tproxy {
        return cluster;
    }
    let ipv6 = ExtraSourceAddress {
        address: Some(socket_address("::6", 0)),
        ..ExtraSourceAddress::default()
    };
    let bind = BindConfig {
        source_address: Some(socket_address("127.0.0.6", 0)),
        extra_source_addresses: vec![ipv6],
        ..BindConfig::default()
    };
    Cluster { upstream_bind_config: Some(bind), ..cluster }
}

fn original_destination_filter() -> ListenerFilter {
    listener_filter("original_dst", &OriginalDst::default())
}

fn listener_filter<M: Message + Name>(name: &str, config: &M) -> ListenerFilter {
    ListenerFilter {
        name: name.to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(any(config))),
        ..ListenerFilter::default()
    }
}

pub(super) fn filter<M: Message + Name>(name: &str, config: &M) -> Filter {
    Filter {
        name: name.to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(any(config))),
    }
}

pub(super) fn address(address: &str, port: u16) -> Address {
    Address { address: Some(address::Address::SocketAddress(socket_address(address, port))) }
}

fn socket_address(address: &str, port: u16) -> SocketAddress {
    SocketAddress {
        address: address.to_owned(),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ..SocketAddress::default()
    }
}

pub(super) fn named<M: Message + Name>(name: String, message: &M) -> NamedResource {
    NamedResource { name, message: any(message) }
}

pub(super) fn any<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

const NAME_TABLE: &str = "type.googleapis.com/istio.networking.nds.v1.NameTable";
const OUTBOUND: &str = "outbound";
const INBOUND: &str = "inbound";
const TPROXY_MARK: u32 = 1337;
