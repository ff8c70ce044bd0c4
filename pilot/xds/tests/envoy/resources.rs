//! Resources: a listener, its route table, clusters and endpoints.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, DiscoveryType, EdsClusterConfig,
};
use envoy_types::pb::envoy::config::core::v3::address::Address as Kind;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ApiVersion, ConfigSource, SocketAddress,
};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
};
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, Listener, filter};
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{
    Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost,
};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds, http_filter,
};
use envoy_types::pb::google::protobuf::{Any, Duration};
use pilot_xds::session::{EncodedResource, Name, NameKey, Reference, Resources, TypeView, Version};
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, ROUTE};
use prost::Message;

/// A published state.
#[derive(Clone, Default)]
pub(crate) struct State {
    items: BTreeMap<(&'static str, Name), Arc<EncodedResource>>,
    routes: Vec<(String, String)>,
}

impl State {
    pub(crate) fn listener(self, listen: SocketAddr) -> Self {
        let router = HttpFilter {
            name: "router".to_owned(),
            config_type: Some(http_filter::ConfigType::TypedConfig(any(&Router::default()))),
            ..HttpFilter::default()
        };
        let routes = Rds { config_source: Some(ads()), route_config_name: "routes".to_owned() };
        let http = HttpConnectionManager {
            stat_prefix: "http".to_owned(),
            route_specifier: Some(RouteSpecifier::Rds(routes)),
            http_filters: vec![router],
            ..HttpConnectionManager::default()
        };
        let filter = Filter {
            name: "http".to_owned(),
            config_type: Some(filter::ConfigType::TypedConfig(any(&http))),
        };
        let listener = Listener {
            name: "web".to_owned(),
            address: Some(address(listen)),
            filter_chains: vec![FilterChain { filters: vec![filter], ..FilterChain::default() }],
            ..Listener::default()
        };
        self.with(LISTENER, "web", &listener, vec![reference(ROUTE, "routes")])
    }

    /// Adds a route before those that match any path.
    pub(crate) fn route(mut self, prefix: &str, cluster: &str) -> Self {
        self.routes.insert(0, (prefix.to_owned(), cluster.to_owned()));
        let routes = self.routes.iter().map(|(prefix, cluster)| Route {
            r#match: Some(RouteMatch {
                path_specifier: Some(PathSpecifier::Prefix(prefix.clone())),
                ..RouteMatch::default()
            }),
            action: Some(Action::Route(RouteAction {
                cluster_specifier: Some(ClusterSpecifier::Cluster(cluster.clone())),
                ..RouteAction::default()
            })),
            ..Route::default()
        });
        let host = VirtualHost {
            name: "all".to_owned(),
            domains: vec!["*".to_owned()],
            routes: routes.collect(),
            ..VirtualHost::default()
        };
        let table = RouteConfiguration {
            name: "routes".to_owned(),
            virtual_hosts: vec![host],
            ..RouteConfiguration::default()
        };
        let clusters = self.routes.iter().map(|(_, name)| reference(CLUSTER, name)).collect();
        self.with(ROUTE, "routes", &table, clusters)
    }

    /// Adds a cluster. Its content is the connect timeout in seconds.
    pub(crate) fn cluster(self, name: &str, content: i64) -> Self {
        let cluster = Cluster {
            name: name.to_owned(),
            connect_timeout: Some(Duration { seconds: content, nanos: 0 }),
            cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
            eds_cluster_config: Some(EdsClusterConfig {
                eds_config: Some(ads()),
                ..EdsClusterConfig::default()
            }),
            ..Cluster::default()
        };
        self.with(CLUSTER, name, &cluster, vec![reference(ENDPOINT, name)])
    }

    pub(crate) fn endpoints(self, name: &str, endpoints: &[SocketAddr]) -> Self {
        let endpoints = endpoints.iter().map(|endpoint| LbEndpoint {
            host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
                address: Some(address(*endpoint)),
                ..Endpoint::default()
            })),
            ..LbEndpoint::default()
        });
        let locality = LocalityLbEndpoints {
            lb_endpoints: endpoints.collect(),
            ..LocalityLbEndpoints::default()
        };
        let assignment = ClusterLoadAssignment {
            cluster_name: name.to_owned(),
            endpoints: vec![locality],
            ..ClusterLoadAssignment::default()
        };
        self.with(ENDPOINT, name, &assignment, vec![])
    }

    fn with(
        mut self,
        type_url: &'static str,
        name: &str,
        message: &impl Message,
        references: Vec<Reference>,
    ) -> Self {
        let body = Bytes::from(message.encode_to_vec());
        // No map is in these messages: equal ones have equal bytes.
        let version = Version::new(&body);
        let name = Name::from(name);
        let key = (type_url, name.clone());
        let resource = EncodedResource::new(type_url, name, version, body, references);
        self.items.insert(key, Arc::new(resource));
        self
    }

    /// True if a client has exactly the resources of this state that it subscribes to.
    pub(crate) fn is_acknowledged(&self, view: &TypeView) -> bool {
        let is_current = view.names.iter().all(|name| {
            name.acknowledged == self.find(&view.type_url, &name.name).map(|found| found.version)
        });
        let known = |name: &Name| view.names.iter().any(|found| found.name == *name);
        let is_complete = !view.wildcard || self.names(&view.type_url).iter().all(known);
        is_current && is_complete && view.in_flight.is_none() && view.waiting.is_empty()
    }
}

impl Resources for State {
    fn names(&self, type_url: &str) -> Vec<Name> {
        let items = self.items.keys().filter(|(found, _)| *found == type_url);
        items.map(|(_, name)| name.clone()).collect()
    }

    fn count(&self, type_url: &str) -> usize {
        self.names(type_url).len()
    }

    fn find(&self, type_url: &str, name: &dyn NameKey) -> Option<&Arc<EncodedResource>> {
        let (mut items, name) = (self.items.iter(), name.as_name());
        let found = items.find(|((kind, found), _)| *kind == type_url && found.as_name() == name);
        found.map(|(_, resource)| resource)
    }
}

fn reference(type_url: &'static str, name: &str) -> Reference {
    Reference { type_url, name: name.into() }
}

fn ads() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(
            ConfigSourceSpecifier::Ads(AggregatedConfigSource::default()),
        ),
        ..ConfigSource::default()
    }
}

fn address(address: SocketAddr) -> Address {
    let address = SocketAddress {
        address: address.ip().to_string(),
        port_specifier: Some(PortSpecifier::PortValue(address.port().into())),
        ..SocketAddress::default()
    };
    Address { address: Some(Kind::SocketAddress(address)) }
}

fn any<M: Message + prost::Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}
