//! Resources of a control plane: HTTP listeners, plain or with mTLS, and names.

use std::net::SocketAddr;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::{
    ApiConfigSource, ApiVersion, ConfigSource, GrpcService, Node,
    TrafficDirection, TransportSocket, api_config_source, config_source, grpc_service,
    transport_socket,
};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
};
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{
    Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost,
};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, http_filter,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::{
    CombinedCertificateValidationContext, ValidationContextType,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, SdsSecretConfig,
    SubjectAltNameMatcher, UpstreamTlsContext, subject_alt_name_matcher,
};
use envoy_types::pb::envoy::r#type::matcher::v3::{StringMatcher, string_matcher};
use envoy_types::pb::google::protobuf::{Any, BoolValue, Duration};
use pilot_agent::relay::{NameInfo, NameTable};
use pilot_xds::type_urls::{CLUSTER, LISTENER, NAME_TABLE};
use prost::{Message, Name};

use super::configuration::{self, address, any, filter};
use super::grpc;

/// Configuration of a proxy.
#[derive(Clone, Default)]
pub(crate) struct Configuration {
    pub(crate) version: u32,
    pub(crate) ports: Vec<Port>,
    /// Passes captured connections on to their original destination.
    pub(crate) captures: bool,
    /// Addresses by host.
    pub(crate) names: Vec<(&'static str, &'static str)>,
    /// Address of a gRPC server that speaks xDS itself.
    pub(crate) grpc: Option<SocketAddr>,
}

/// A port of Envoy that passes HTTP requests on to an address.
#[derive(Clone)]
pub(crate) struct Port {
    pub(crate) listen: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) tls: Tls,
    pub(crate) direction: TrafficDirection,
}

/// Use of mTLS; the text is the service account of the peer.
#[derive(Clone, Copy)]
pub(crate) enum Tls {
    None,
    Downstream(&'static str),
    Upstream(&'static str),
    /// A listener that Envoy rejects.
    Invalid,
}

impl Configuration {
    /// Returns a configuration with one plain port.
    pub(crate) fn http(listen: u16, to: u16) -> Self {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let direction = TrafficDirection::Inbound;
        let port = Port { listen: local(listen), to: local(to), tls: Tls::None, direction };
        Self { version: 1, ports: vec![port], ..Self::default() }
    }

    /// Returns a configuration that passes HTTP from port 8080 over mTLS to port 8443 of the same
    /// Envoy, and from there to another port. Both ends have the identity of a service account.
    pub(crate) fn mtls(account: &'static str, to: u16) -> Self {
        let mut configuration = Self::http(8080, 8443);
        configuration.ports.extend(Self::http(8443, to).ports);
        configuration.ports[0].tls = Tls::Upstream(account);
        configuration.ports[1].tls = Tls::Downstream(account);
        configuration
    }

    /// Returns the resources of a type with their names.
    pub(super) fn resources(&self, type_url: &str) -> Vec<(String, Any)> {
        let ports = self.ports.iter();
        let mut found: Vec<_> = match type_url {
            CLUSTER => ports.map(|port| (port.name(), any(&port.cluster()))).collect(),
            LISTENER => ports.map(|port| (port.name(), any(&port.listener()))).collect(),
            NAME_TABLE => vec![(String::new(), self.name_table())],
            _ => Vec::new(),
        };
        if let Some(server) = self.grpc {
            found.extend(grpc::resource(type_url, server));
        }
        if self.captures {
            let sidecar = Node { id: "sidecar~".to_owned(), ..Node::default() };
            let captured = configuration::resources(type_url, &sidecar, &NameTable::default());
            found.extend(captured.into_iter().map(|resource| (resource.name, resource.message)));
        }
        found
    }

    fn name_table(&self) -> Any {
        let info = |address: &str| NameInfo {
            ips: vec![address.to_owned()],
            registry: "External".to_owned(),
            ..NameInfo::default()
        };
        let table = self.names.iter().map(|(host, address)| ((*host).to_owned(), info(address)));
        let table = NameTable { table: table.collect(), name_info: None };
        Any { type_url: NAME_TABLE.to_owned(), value: table.encode_to_vec() }
    }
}

impl Port {
    fn name(&self) -> String {
        format!("port-{}", self.listen.port())
    }

    fn cluster(&self) -> Cluster {
        let to = address(&self.to.ip().to_string(), self.to.port());
        let endpoint = Endpoint { address: Some(to), ..Endpoint::default() };
        let host = LbEndpoint {
            host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
            ..LbEndpoint::default()
        };
        let endpoints =
            LocalityLbEndpoints { lb_endpoints: vec![host], ..LocalityLbEndpoints::default() };
        let assignment = ClusterLoadAssignment {
            cluster_name: self.name(),
            endpoints: vec![endpoints],
            ..ClusterLoadAssignment::default()
        };
        let Tls::Upstream(peer) = self.tls else {
            return Cluster {
                name: self.name(),
                load_assignment: Some(assignment),
                ..Cluster::default()
            };
        };
        let tls = UpstreamTlsContext {
            common_tls_context: Some(tls_context(peer)),
            ..UpstreamTlsContext::default()
        };
        Cluster {
            name: self.name(),
            load_assignment: Some(assignment),
            transport_socket: Some(transport_socket(&tls)),
            ..Cluster::default()
        }
    }

    fn listener(&self) -> Listener {
        let transport_socket = match self.tls {
            Tls::Downstream(peer) => Some(transport_socket(&DownstreamTlsContext {
                require_client_certificate: Some(BoolValue { value: true }),
                common_tls_context: Some(tls_context(peer)),
                ..DownstreamTlsContext::default()
            })),
            Tls::Invalid => Some(TransportSocket { name: "unknown".to_owned(), config_type: None }),
            _ => None,
        };
        Listener {
            name: self.name(),
            address: Some(address(&self.listen.ip().to_string(), self.listen.port())),
            traffic_direction: self.direction.into(),
            filter_chains: vec![FilterChain {
                filters: vec![filter("http", &http(&self.name()))],
                transport_socket,
                ..FilterChain::default()
            }],
            ..Listener::default()
        }
    }
}

fn http(cluster: &str) -> HttpConnectionManager {
    let route = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster.to_owned())),
        timeout: Some(Duration { seconds: 60, nanos: 0 }),
        ..RouteAction::default()
    };
    let route = Route {
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::Prefix("/".to_owned())),
            ..RouteMatch::default()
        }),
        action: Some(Action::Route(route)),
        ..Route::default()
    };
    let host = VirtualHost {
        name: "all".to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![route],
        ..VirtualHost::default()
    };
    let routes = RouteConfiguration { virtual_hosts: vec![host], ..RouteConfiguration::default() };
    let router = HttpFilter {
        name: "router".to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(any(&Router::default()))),
        ..HttpFilter::default()
    };
    HttpConnectionManager {
        stat_prefix: cluster.to_owned(),
        route_specifier: Some(RouteSpecifier::RouteConfig(routes)),
        http_filters: vec![router],
        ..HttpConnectionManager::default()
    }
}

fn transport_socket<M: Message + Name>(tls: &M) -> TransportSocket {
    let config_type = Some(transport_socket::ConfigType::TypedConfig(any(tls)));
    TransportSocket { name: "tls".to_owned(), config_type }
}

/// Returns TLS settings with both secrets from the agent.
fn tls_context(peer: &str) -> CommonTlsContext {
    let identity = format!("spiffe://cluster.local/ns/shop/sa/{peer}");
    let exact = Some(string_matcher::MatchPattern::Exact(identity));
    let matcher = SubjectAltNameMatcher {
        san_type: subject_alt_name_matcher::SanType::Uri.into(),
        matcher: Some(StringMatcher { match_pattern: exact, ..StringMatcher::default() }),
        ..SubjectAltNameMatcher::default()
    };
    let context = CertificateValidationContext {
        match_typed_subject_alt_names: vec![matcher],
        ..CertificateValidationContext::default()
    };
    let combined = CombinedCertificateValidationContext {
        default_validation_context: Some(context),
        validation_context_sds_secret_config: Some(secret("ROOTCA")),
        ..CombinedCertificateValidationContext::default()
    };
    CommonTlsContext {
        tls_certificate_sds_secret_configs: vec![secret("default")],
        validation_context_type: Some(ValidationContextType::CombinedValidationContext(combined)),
        ..CommonTlsContext::default()
    }
}

fn secret(name: &str) -> SdsSecretConfig {
    let service = GrpcService {
        target_specifier: Some(grpc_service::TargetSpecifier::EnvoyGrpc(grpc_service::EnvoyGrpc {
            cluster_name: "sds-grpc".to_owned(),
            ..grpc_service::EnvoyGrpc::default()
        })),
        ..GrpcService::default()
    };
    let source = ApiConfigSource {
        api_type: api_config_source::ApiType::Grpc.into(),
        transport_api_version: ApiVersion::V3.into(),
        grpc_services: vec![service],
        set_node_on_first_message_only: true,
        ..ApiConfigSource::default()
    };
    SdsSecretConfig {
        name: name.to_owned(),
        sds_config: Some(ConfigSource {
            resource_api_version: ApiVersion::V3.into(),
            initial_fetch_timeout: Some(Duration::default()),
            config_source_specifier: Some(config_source::ConfigSourceSpecifier::ApiConfigSource(
                source,
            )),
            ..ConfigSource::default()
        }),
    }
}
