//! Routes of HTTP requests.

mod domains;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::hash_policy::{
    ConnectionProperties, PolicySpecifier,
};
use envoy_types::pb::envoy::config::route::v3::route_action::{
    ClusterSpecifier, HashPolicy, MaxStreamDuration,
};
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{
    DirectResponseAction, Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost,
};
use pilot_registry::hostname::Hostname;
use pilot_registry::protocol::ProtocolClass;
use pilot_registry::service::{Resolution, Service, ServicePort};
use pilot_xds::session::Reference;
use pilot_xds::type_urls::ROUTE;

use super::context::{Context, Origin};
use super::message::{duration, number, switch};
use super::retries::{UNREACHED, client_retries, server_retries};
use super::{Generator, names, to_cluster};
use crate::scope::AliasTarget;
use crate::view::OutboundPolicy;

/// Generator of route configurations (RDS).
#[derive(Clone, Copy, Debug)]
pub struct Routes;

/// Inputs of a route configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RouteInputs {
    /// All hosts of a port.
    Port(PortRoutes),
    /// One host, whichever name a request has. Its listener is bound to the host's addresses.
    Host(HostRoute),
}

/// Inputs of the routes of a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortRoutes {
    port: u16,
    /// Namespace of the proxy, in which its short names resolve.
    namespace: Arc<str>,
    domain: Arc<str>,
    policy: OutboundPolicy,
    hosts: Vec<HostRoute>,
}

/// Host of a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostRoute {
    hostname: Hostname,
    port: u16,
    /// Names of services that are aliases of the host.
    aliases: Vec<Hostname>,
    addresses: Vec<IpAddr>,
    has_pod_names: bool,
    action: HostAction,
}

/// Handling of a host's requests. Rules of users enter here, as further variants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostAction {
    /// All requests go to one cluster.
    Cluster {
        /// Name of the cluster.
        name: String,
        /// True if all requests of a client go to one endpoint.
        is_sticky: bool,
        /// True for a host outside of the mesh.
        is_outside: bool,
    },
}

impl Generator for Routes {
    type Inputs = RouteInputs;
    type Message = RouteConfiguration;
    const TYPE_URL: &'static str = ROUTE;

    fn names(context: &Context<'_>) -> BTreeSet<String> {
        context.outbound().route_names()
    }

    fn inputs(context: &Context<'_>, name: &str) -> Option<RouteInputs> {
        let hosts = context.outbound().hosts(name)?;
        let route = |hostname: &Hostname, port| {
            let service = context.scope.service(hostname)?;
            Some(HostRoute::new(context, service, service.port(port)?))
        };
        if let Some((_, port)) = name.split_once(':') {
            return Some(RouteInputs::Host(route(hosts.first()?, port.parse().ok()?)?));
        }
        let port: u16 = name.parse().ok()?;
        let proxy = context.proxy;
        let hosts = hosts.iter().filter_map(|hostname| route(hostname, port));
        Some(RouteInputs::Port(PortRoutes {
            port,
            namespace: proxy.namespace.clone(),
            domain: proxy.domain.clone(),
            policy: context.mesh.outbound_policy,
            hosts: hosts.collect(),
        }))
    }

    fn build(inputs: &RouteInputs) -> RouteConfiguration {
        let (name, virtual_hosts) = match inputs {
            RouteInputs::Host(host) => {
                let name = host_routes(&host.hostname, host.port);
                (name, vec![host.build(vec!["*".to_owned()])])
            }
            RouteInputs::Port(routes) => {
                let domains = routes.domains();
                let hosts = routes.hosts.iter().zip(domains);
                let hosts = hosts.map(|(host, domains)| host.build(domains));
                let hosts = hosts.chain([unknown_hosts(routes.policy)]).collect();
                (routes.port.to_string(), hosts)
            }
        };
        RouteConfiguration {
            name,
            virtual_hosts,
            validate_clusters: switch(false),
            ignore_port_in_host_matching: true,
            max_direct_response_body_size_bytes: number(1024 * 1024),
            response_headers_to_remove: vec![UNREACHED.to_owned()],
            ..RouteConfiguration::default()
        }
    }

    fn references(inputs: &RouteInputs) -> Vec<Reference> {
        let cluster = |host: &HostRoute| match &host.action {
            HostAction::Cluster { name, .. } => to_cluster(name.clone()),
        };
        match inputs {
            RouteInputs::Host(host) => vec![cluster(host)],
            RouteInputs::Port(routes) => {
                let passes = routes.policy == OutboundPolicy::AllowAny;
                let unknown = passes.then(|| to_cluster(names::PASSTHROUGH));
                routes.hosts.iter().map(cluster).chain(unknown).collect()
            }
        }
    }

    fn why(context: &Context<'_>, name: &str) -> BTreeSet<Origin> {
        let hosts = match Self::inputs(context, name) {
            Some(RouteInputs::Host(host)) => vec![host],
            Some(RouteInputs::Port(routes)) => routes.hosts,
            None => return BTreeSet::new(),
        };
        let names = hosts.iter().flat_map(|host| host.aliases.iter().chain([&host.hostname]));
        let services = names.filter_map(|name| context.scope.service(name));
        services.map(|service| Origin::service(service)).chain([Origin::mesh()]).collect()
    }
}

/// True if requests find the service by their host: it has HTTP, and is no alias of a host of the
/// mesh, whose names belong to that host.
pub(super) fn is_routed_by_host(
    context: &Context<'_>,
    service: &Service,
    port: &ServicePort,
) -> bool {
    let has_routes = match &service.resolution {
        Resolution::Alias(target) => {
            matches!(context.scope.alias_target(target), AliasTarget::External(_))
        }
        Resolution::ClientSide | Resolution::OriginalDestination => true,
    };
    has_routes && port.protocol.class() == ProtocolClass::Http
}

/// Name of the routes of one host.
pub(super) fn host_routes(hostname: &Hostname, port: u16) -> String {
    format!("{hostname}:{port}")
}

/// Routes of requests that reached the proxy from outside, to the application.
pub(super) fn inbound_routes(cluster: &str, virtual_host: String) -> RouteConfiguration {
    let action = RouteAction { retry_policy: Some(server_retries()), ..forward(cluster, false) };
    RouteConfiguration {
        name: cluster.to_owned(),
        virtual_hosts: vec![VirtualHost {
            name: virtual_host,
            domains: vec!["*".to_owned()],
            routes: vec![every_path("default", Action::Route(action))],
            ..VirtualHost::default()
        }],
        validate_clusters: switch(false),
        // An application's own: only the proxy sets it.
        response_headers_to_remove: vec![UNREACHED.to_owned()],
        ..RouteConfiguration::default()
    }
}

impl HostRoute {
    fn new(context: &Context<'_>, service: &Service, port: &ServicePort) -> Self {
        let families = context.proxy.families();
        let addresses = service.addresses.iter().copied();
        let name = names::outbound(port.number, &service.hostname);
        let is_sticky = service.client_affinity && service.resolution == Resolution::ClientSide;
        Self {
            hostname: service.hostname.clone(),
            port: port.number,
            aliases: context.aliases(&service.hostname).to_vec(),
            addresses: addresses.filter(|address| families.has(*address)).collect(),
            has_pod_names: service.resolution == Resolution::OriginalDestination,
            action: HostAction::Cluster {
                name,
                is_sticky,
                is_outside: matches!(service.resolution, Resolution::Alias(_)),
            },
        }
    }

    fn build(&self, domains: Vec<String>) -> VirtualHost {
        let HostAction::Cluster { name, is_sticky, is_outside } = &self.action;
        let action = RouteAction {
            retry_policy: Some(client_retries(*is_outside)),
            ..forward(name, *is_sticky)
        };
        VirtualHost {
            name: host_routes(&self.hostname, self.port),
            domains,
            routes: vec![every_path("default", Action::Route(action))],
            include_request_attempt_count: true,
            ..VirtualHost::default()
        }
    }
}

fn unknown_hosts(policy: OutboundPolicy) -> VirtualHost {
    let (name, action) = match policy {
        OutboundPolicy::AllowAny => {
            ("allow_any", Action::Route(forward(names::PASSTHROUGH, false)))
        }
        OutboundPolicy::RegistryOnly => {
            let refusal = DirectResponseAction { status: 502, ..DirectResponseAction::default() };
            ("block_all", Action::DirectResponse(refusal))
        }
    };
    VirtualHost {
        name: name.to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![every_path(name, action)],
        include_request_attempt_count: true,
        ..VirtualHost::default()
    }
}

fn every_path(name: &str, action: Action) -> Route {
    Route {
        name: name.to_owned(),
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::Prefix("/".to_owned())),
            ..RouteMatch::default()
        }),
        action: Some(action),
        ..Route::default()
    }
}

/// Forwards requests without retries and without a timeout, unless gRPC's clients set one.
fn forward(cluster: &str, is_sticky: bool) -> RouteAction {
    let by_source = PolicySpecifier::ConnectionProperties(ConnectionProperties { source_ip: true });
    let by_source = HashPolicy { policy_specifier: Some(by_source), ..HashPolicy::default() };
    RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster.to_owned())),
        timeout: duration(Duration::ZERO),
        hash_policy: is_sticky.then_some(by_source).into_iter().collect(),
        max_stream_duration: Some(MaxStreamDuration {
            max_stream_duration: duration(Duration::ZERO),
            grpc_timeout_header_max: duration(Duration::ZERO),
            ..MaxStreamDuration::default()
        }),
        ..RouteAction::default()
    }
}
