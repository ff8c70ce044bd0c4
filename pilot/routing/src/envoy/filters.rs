//! Filters of connections and requests.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::substitution_format_string::Format;
use envoy_types::pb::envoy::config::core::v3::{DataSource, SubstitutionFormatString};
use envoy_types::pb::envoy::config::listener::v3::Filter;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::filters::common::set_filter_state::v3::{
    FilterStateValue, filter_state_value,
};
use envoy_types::pb::envoy::extensions::filters::http::cors::v3::Cors;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::HttpFault;
use envoy_types::pb::envoy::extensions::filters::http::grpc_stats::v3::{
    FilterConfig as GrpcStats, filter_config,
};
use envoy_types::pb::envoy::extensions::filters::http::grpc_web::v3::GrpcWeb;
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::http::set_filter_state::v3::Config as SetFilterState;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    ForwardClientCertDetails, PathNormalizationOptions, RouteSpecifier,
    SetCurrentClientCertDetails, UpgradeConfig,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds, http_filter,
};
use envoy_types::pb::envoy::extensions::filters::network::set_filter_state::v3::Config as SetConnectionState;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier;
use envoy_types::pb::envoy::r#type::v3::{HashPolicy, hash_policy};
use prost::{Message, Name};

use super::access_log::logs;
use super::message::{ads, any, duration, network_filter, switch};
use super::retries::server_marks;
use super::tls;
use crate::access_log::AccessLog;

/// Routes of a connection manager.
pub(super) enum Routes {
    /// A resource of its own.
    Named(String),
    /// Part of the listener.
    Inline(Box<RouteConfiguration>),
}

/// Direction of the requests of a connection manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Inbound,
    Outbound,
}

/// ALPN that clusters of undeclared protocol offer for HTTP.
pub(super) type HttpAlpn = &'static [&'static str];

/// Options of a connection manager.
#[derive(Clone, Copy, Debug)]
pub(super) struct HttpOptions {
    pub(super) direction: Direction,
    /// ALPN that overrides the cluster's.
    pub(super) alpn: Option<HttpAlpn>,
    /// True if browsers call gRPC here, by gRPC-Web.
    pub(super) grpc_web: bool,
}

/// Returns the filter that forwards connections to a cluster.
pub(super) fn tcp_proxy(
    stat_prefix: &str,
    cluster: &str,
    sticky: bool,
    log: Option<&AccessLog>,
) -> Filter {
    let source = hash_policy::PolicySpecifier::SourceIp(hash_policy::SourceIp {});
    let by_source = HashPolicy { policy_specifier: Some(source) };
    let proxy = TcpProxy {
        stat_prefix: stat_prefix.to_owned(),
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster.to_owned())),
        hash_policy: sticky.then_some(by_source).into_iter().collect(),
        access_log: logs(log),
        ..TcpProxy::default()
    };
    network_filter("envoy.filters.network.tcp_proxy", &proxy)
}

/// Returns the filter that routes requests.
pub(super) fn connection_manager(
    stat_prefix: &str,
    options: HttpOptions,
    routes: Routes,
    log: Option<&AccessLog>,
) -> Filter {
    let (server_name, marks, forward, details) = match options.direction {
        Direction::Inbound => (
            "istio-envoy".to_owned(),
            Some(server_marks()),
            ForwardClientCertDetails::AppendForward,
            Some(SetCurrentClientCertDetails {
                subject: switch(true),
                dns: true,
                uri: true,
                ..SetCurrentClientCertDetails::default()
            }),
        ),
        Direction::Outbound => (String::new(), None, ForwardClientCertDetails::Sanitize, None),
    };
    let manager = HttpConnectionManager {
        stat_prefix: stat_prefix.to_owned(),
        http_filters: http_filters(options),
        server_name,
        proxy_100_continue: true,
        stream_idle_timeout: duration(Duration::ZERO),
        use_remote_address: switch(false),
        normalize_path: switch(true),
        path_normalization_options: Some(PathNormalizationOptions::default()),
        upgrade_configs: vec![UpgradeConfig {
            upgrade_type: "websocket".to_owned(),
            ..UpgradeConfig::default()
        }],
        forward_client_cert_details: forward.into(),
        set_current_client_cert_details: details,
        route_specifier: Some(match routes {
            Routes::Named(name) => {
                RouteSpecifier::Rds(Rds { config_source: Some(ads()), route_config_name: name })
            }
            Routes::Inline(routes) => RouteSpecifier::RouteConfig(*routes),
        }),
        access_log: logs(log),
        local_reply_config: marks,
        ..HttpConnectionManager::default()
    };
    network_filter("envoy.filters.network.http_connection_manager", &manager)
}

/// Returns the filters of requests in Istio's order: authorization and JWT come first, statistics
/// next to `grpc_stats`.
fn http_filters(options: HttpOptions) -> Vec<HttpFilter> {
    let grpc_stats = GrpcStats {
        emit_filter_state: true,
        per_method_stat_specifier: Some(filter_config::PerMethodStatSpecifier::StatsForAllMethods(
            envoy_types::pb::google::protobuf::BoolValue { value: false },
        )),
        ..GrpcStats::default()
    };
    let grpc_web = || http_filter("envoy.filters.http.grpc_web", &GrpcWeb::default());
    let mut filters: Vec<_> = options.grpc_web.then(grpc_web).into_iter().collect();
    filters.push(http_filter("envoy.filters.http.grpc_stats", &grpc_stats));
    filters.extend(options.alpn.map(alpn_filter));
    if options.direction == Direction::Outbound {
        filters.push(http_filter("envoy.filters.http.fault", &HttpFault::default()));
    }
    filters.push(http_filter("envoy.filters.http.cors", &Cors {}));
    filters.push(http_filter("envoy.filters.http.router", &Router::default()));
    filters
}

/// Returns the filter that overrides a cluster's ALPN. The server's proxy tells HTTP from other
/// protocols by it, on ports of undeclared protocol.
fn alpn_filter(protocols: HttpAlpn) -> HttpFilter {
    let value = state_for_upstream("envoy.network.application_protocols", protocols.join(","));
    let config = SetFilterState { on_request_headers: vec![value], ..SetFilterState::default() };
    http_filter("alpn", &config)
}

/// Returns the filter that has a connection use the cluster's socket without TLS.
pub(super) fn plaintext_filter() -> Filter {
    let value = FilterStateValue {
        factory_key: "envoy.string".to_owned(),
        ..state_for_upstream(tls::SOCKET_KEY, tls::PLAINTEXT.to_owned())
    };
    let config =
        SetConnectionState { on_new_connection: vec![value], ..SetConnectionState::default() };
    network_filter("envoy.filters.network.set_filter_state", &config)
}

/// Returns a filter state that the connection to the server takes over.
fn state_for_upstream(key: &str, format: String) -> FilterStateValue {
    let source =
        DataSource { specifier: Some(Specifier::InlineString(format)), ..DataSource::default() };
    let format = SubstitutionFormatString {
        format: Some(Format::TextFormatSource(source)),
        ..SubstitutionFormatString::default()
    };
    FilterStateValue {
        key: Some(filter_state_value::Key::ObjectKey(key.to_owned())),
        value: Some(filter_state_value::Value::FormatString(format)),
        shared_with_upstream: filter_state_value::SharedWithUpstream::Once.into(),
        ..FilterStateValue::default()
    }
}

fn http_filter<M: Message + Name>(name: &str, config: &M) -> HttpFilter {
    HttpFilter {
        name: name.to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(any(config))),
        ..HttpFilter::default()
    }
}
