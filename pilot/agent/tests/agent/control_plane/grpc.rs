//! Resources of gRPC applications that speak xDS themselves: a client's and a server's, with mTLS
//! by the certificate provider `default` of their bootstrap.

use std::net::SocketAddr;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, DiscoveryType, EdsClusterConfig,
};
use envoy_types::pb::envoy::config::core::v3::{
    AggregatedConfigSource, ConfigSource, TransportSocket, config_source, transport_socket,
};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
};
use envoy_types::pb::envoy::config::core::v3::Locality;
use envoy_types::pb::envoy::config::listener::v3::{ApiListener, FilterChain, Listener};
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{
    NonForwardingAction, Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost,
};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds, http_filter,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateProviderPluginInstance, CertificateValidationContext, CommonTlsContext,
    DownstreamTlsContext, UpstreamTlsContext,
};
use envoy_types::pb::google::protobuf::{Any, BoolValue, UInt32Value};
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, ROUTE};
use prost::{Message, Name};

use super::configuration::{address, any, filter};

/// Returns the resources of a type with their names. The client connects to `xds:///SERVICE`.
pub(super) fn resource(type_url: &str, server: SocketAddr) -> Vec<(String, Any)> {
    match type_url {
        LISTENER => {
            let (client, server) = (client(), inbound(server));
            vec![(client.name.clone(), any(&client)), (server.name.clone(), any(&server))]
        }
        ROUTE => vec![(
            NAME.to_owned(),
            any(&routes(Action::Route(RouteAction {
                cluster_specifier: Some(ClusterSpecifier::Cluster(NAME.to_owned())),
                ..RouteAction::default()
            }))),
        )],
        CLUSTER => vec![(NAME.to_owned(), any(&cluster()))],
        ENDPOINT => vec![(NAME.to_owned(), any(&endpoints(server)))],
        _ => Vec::new(),
    }
}

fn client() -> Listener {
    let routes = Rds { config_source: Some(ads()), route_config_name: NAME.to_owned() };
    Listener {
        name: SERVICE.to_owned(),
        api_listener: Some(ApiListener {
            api_listener: Some(any(&http(RouteSpecifier::Rds(routes)))),
        }),
        ..Listener::default()
    }
}

fn inbound(server: SocketAddr) -> Listener {
    let tls = DownstreamTlsContext {
        require_client_certificate: Some(BoolValue { value: true }),
        common_tls_context: Some(tls_context()),
        ..DownstreamTlsContext::default()
    };
    let routes = routes(Action::NonForwardingAction(NonForwardingAction {}));
    Listener {
        name: format!("xds.istio.io/grpc/lds/inbound/{server}"),
        address: Some(address(&server.ip().to_string(), server.port())),
        filter_chains: vec![FilterChain {
            name: NAME.to_owned(),
            filters: vec![filter("http", &http(RouteSpecifier::RouteConfig(routes)))],
            transport_socket: Some(transport_socket(&tls)),
            ..FilterChain::default()
        }],
        ..Listener::default()
    }
}

fn http(routes: RouteSpecifier) -> HttpConnectionManager {
    let router = HttpFilter {
        name: "router".to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(any(&Router::default()))),
        ..HttpFilter::default()
    };
    HttpConnectionManager {
        stat_prefix: NAME.to_owned(),
        route_specifier: Some(routes),
        http_filters: vec![router],
        ..HttpConnectionManager::default()
    }
}

fn routes(action: Action) -> RouteConfiguration {
    let route = Route {
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::Prefix(String::new())),
            ..RouteMatch::default()
        }),
        action: Some(action),
        ..Route::default()
    };
    let host = VirtualHost {
        name: NAME.to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![route],
        ..VirtualHost::default()
    };
    RouteConfiguration {
        name: NAME.to_owned(),
        virtual_hosts: vec![host],
        ..RouteConfiguration::default()
    }
}

fn cluster() -> Cluster {
    let tls = UpstreamTlsContext {
        common_tls_context: Some(tls_context()),
        ..UpstreamTlsContext::default()
    };
    Cluster {
        name: NAME.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: Some(ads()),
            ..EdsClusterConfig::default()
        }),
        transport_socket: Some(transport_socket(&tls)),
        ..Cluster::default()
    }
}

fn endpoints(server: SocketAddr) -> ClusterLoadAssignment {
    let server = address(&server.ip().to_string(), server.port());
    let endpoint = Endpoint { address: Some(server), ..Endpoint::default() };
    let endpoint = LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
        ..LbEndpoint::default()
    };
    let locality = LocalityLbEndpoints {
        locality: Some(Locality::default()),
        lb_endpoints: vec![endpoint],
        load_balancing_weight: Some(UInt32Value { value: 1 }),
        ..LocalityLbEndpoints::default()
    };
    ClusterLoadAssignment {
        cluster_name: NAME.to_owned(),
        endpoints: vec![locality],
        ..ClusterLoadAssignment::default()
    }
}

fn tls_context() -> CommonTlsContext {
    let provider = CertificateProviderPluginInstance {
        instance_name: "default".to_owned(),
        ..CertificateProviderPluginInstance::default()
    };
    let context = CertificateValidationContext {
        ca_certificate_provider_instance: Some(provider.clone()),
        ..CertificateValidationContext::default()
    };
    CommonTlsContext {
        tls_certificate_provider_instance: Some(provider),
        validation_context_type: Some(ValidationContextType::ValidationContext(context)),
        ..CommonTlsContext::default()
    }
}

/// gRPC knows one transport socket, by its name.
fn transport_socket<M: Message + Name>(tls: &M) -> TransportSocket {
    let config_type = Some(transport_socket::ConfigType::TypedConfig(any(tls)));
    TransportSocket { name: "envoy.transport_sockets.tls".to_owned(), config_type }
}

fn ads() -> ConfigSource {
    ConfigSource {
        config_source_specifier: Some(config_source::ConfigSourceSpecifier::Ads(
            AggregatedConfigSource {},
        )),
        ..ConfigSource::default()
    }
}

/// Host that the client connects to.
pub(crate) const SERVICE: &str = "greeter.shop:7070";
const NAME: &str = "greeter";
