//! Listeners of outbound connections.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::TrafficDirection;
use envoy_types::pb::envoy::config::listener::v3::{
    Filter, FilterChain, FilterChainMatch, Listener,
};
use pilot_registry::endpoint::Health;
use pilot_registry::hostname::Hostname;
use pilot_registry::protocol::{Protocol, ProtocolClass};
use pilot_registry::service::{Resolution, Service, ServicePort};
use pilot_xds::session::Reference;

use super::super::access_log::logs_of_rejections;
use super::super::context::{Context, Origin};
use super::super::endpoints::takes_mtls;
use super::super::filters::{
    Direction, HttpAlpn, HttpOptions, Routes, connection_manager, plaintext_filter, tcp_proxy,
};
use super::super::message::{duration, switch};
use super::super::routes::{host_routes, is_routed_by_host};
use super::super::{names, tls, to_cluster, to_routes};
use super::{chain, inspectors, listener, to_port};
use crate::access_log::AccessLog;
use crate::view::{Interception, OutboundPolicy, ProxyKind};

/// Outbound listeners of a proxy by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboundPlan {
    listeners: BTreeMap<String, OutboundListener>,
    /// Hosts of the route configurations that the listeners refer to.
    routes: BTreeMap<String, BTreeSet<Hostname>>,
    conflicts: Vec<Conflict>,
}

/// Service port without a listener of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Service that has no listener.
    pub hostname: Hostname,
    /// Its port.
    pub port: u16,
    /// The address and port are taken by this older service, or by the proxy itself.
    pub taken_by: Option<Hostname>,
}

/// Inputs of an outbound listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OutboundListener {
    name: String,
    addresses: Vec<IpAddr>,
    port: u16,
    /// True if the application addresses the listener itself, since no connection is captured.
    is_bound: bool,
    target: Target,
    access_log: Option<Arc<AccessLog>>,
    detection_timeout: Duration,
}

/// Destination of a listener's connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Target {
    /// HTTP hosts of the port; other connections by the policy for unknown hosts.
    Hosts { policy: OutboundPolicy, has_grpc_web: bool },
    /// One service, or a pod of it.
    Service { hostname: Hostname, protocol: Protocol, is_sticky: bool, pod: Option<PodTransport> },
}

/// Transport to the pod of a listener, the better one first. Envoy knows nothing about the endpoints of a headless
/// service, so the listener of each says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum PodTransport {
    /// That of the cluster.
    OfCluster,
    /// Plaintext: the pod's proxy takes no mutual TLS.
    Plaintext,
    /// None: the address may be a foreigner's.
    Refused,
}

/// Inputs of the listener of captured connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VirtualOutbound {
    addresses: Vec<IpAddr>,
    port: u16,
    policy: OutboundPolicy,
    access_log: Option<Arc<AccessLog>>,
}

impl OutboundPlan {
    /// Lays out the listeners of all visible services, the oldest first: of two services with one
    /// address and port, the older one has the listener.
    pub fn new(context: &Context<'_>) -> Self {
        let mut plan = Planning { context, plan: Self::default(), taken: BTreeMap::new() };
        if context.proxy.kind == ProxyKind::Sidecar {
            let mut services: Vec<_> = context.scope.services().collect();
            services.sort_by_key(|service| (service.created, &service.hostname));
            for service in services {
                for port in &service.ports {
                    plan.add(service, port);
                }
            }
        }
        plan.plan
    }

    /// Names of the listeners.
    pub fn listener_names(&self) -> impl Iterator<Item = String> {
        self.listeners.keys().cloned()
    }

    /// Inputs of a listener.
    pub fn listener(&self, name: &str) -> Option<&OutboundListener> {
        self.listeners.get(name)
    }

    /// Names of the route configurations that the listeners refer to.
    pub fn route_names(&self) -> BTreeSet<String> {
        self.routes.keys().cloned().collect()
    }

    /// Hosts of a route configuration; `None` if no listener refers to it.
    pub(in super::super) fn hosts(&self, routes: &str) -> Option<&BTreeSet<Hostname>> {
        self.routes.get(routes)
    }

    /// Service ports without a listener of their own.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    pub(super) fn origins(&self, context: &Context<'_>, name: &str) -> BTreeSet<Origin> {
        let Some(listener) = self.listener(name) else { return BTreeSet::new() };
        let of_routes = listener.routes().and_then(|routes| self.hosts(&routes));
        let own = match &listener.target {
            Target::Service { hostname, .. } => Some(hostname),
            Target::Hosts { .. } => None,
        };
        let hosts = of_routes.into_iter().flatten().chain(own);
        let services = hosts.filter_map(|hostname| context.scope.service(hostname));
        services.map(|service| Origin::service(service)).chain([Origin::mesh()]).collect()
    }
}

/// Plan in the making.
struct Planning<'a, 'b> {
    context: &'a Context<'b>,
    plan: OutboundPlan,
    taken: BTreeMap<(IpAddr, u16), Hostname>,
}

impl Planning<'_, '_> {
    fn add(&mut self, service: &Service, port: &ServicePort) {
        let proxy = self.context.proxy;
        if is_routed_by_host(self.context, service, port) {
            self.add_hosts(service, port);
        }
        let class = port.protocol.class();
        if class == ProtocolClass::Udp || proxy.interception == Interception::None {
            return;
        }
        match service.resolution {
            Resolution::ClientSide if class != ProtocolClass::Http => {
                let addresses = service.addresses.iter().copied();
                let addresses = addresses.filter(|address| proxy.families().has(*address));
                self.add_service(service, port, addresses.collect(), None);
            }
            Resolution::OriginalDestination => {
                for (address, transport) in self.pods(service, port.number) {
                    self.add_service(service, port, vec![address], Some(transport));
                }
            }
            Resolution::ClientSide | Resolution::Alias(_) => {}
        }
    }

    /// Addresses of a headless service's pods, without the proxy's own. Pods that are not ready and
    /// those that end are among them: without its listener, a pod's open connections would end.
    fn pods(&self, service: &Service, port: u16) -> BTreeMap<IpAddr, PodTransport> {
        let Context { proxy, mesh, snapshot, .. } = self.context;
        let set = snapshot.endpoints(&service.hostname, port);
        let endpoints = set.into_iter().flat_map(|set| &set.endpoints).filter(|endpoint| {
            let address = endpoint.address;
            proxy.families().has(address) && !proxy.addresses.contains(&address)
        });
        let mut pods = BTreeMap::new();
        for endpoint in endpoints {
            // Connections to the ports of a pod's proxy are not captured there.
            let is_proxys = [port, endpoint.port].iter().any(|port| proxy.reserves(mesh, *port));
            let is_encrypted = mesh.auto_mtls && !is_proxys && takes_mtls(self.context, endpoint);
            let transport = match endpoint.health {
                Health::Waiting => PodTransport::Refused,
                _ if is_encrypted => PodTransport::OfCluster,
                _ => PodTransport::Plaintext,
            };
            // An address may be in two slices, with two ports.
            let known = pods.entry(endpoint.address).or_insert(transport);
            *known = transport.min(*known);
        }
        pods
    }

    fn add_hosts(&mut self, service: &Service, port: &ServicePort) {
        let has_grpc_web = port.protocol == Protocol::GrpcWeb;
        let port = port.number;
        let (proxy, mesh) = (self.context.proxy, self.context.mesh);
        let is_bound = proxy.interception == Interception::None;
        let addresses =
            if is_bound { proxy.families().loopback() } else { proxy.families().unspecified() };
        let is_own = self.context.targets.iter().any(|target| target.port == port);
        let is_unbindable = is_own || (proxy.unprivileged && port < 1024);
        if proxy.reserves(mesh, port) || (is_bound && is_unbindable) {
            self.conflict(service, port, None);
            return;
        }
        let hosts = self.plan.routes.entry(port.to_string()).or_default();
        hosts.insert(service.hostname.clone());
        if hosts.len() == 1 || has_grpc_web {
            let target = Target::Hosts { policy: mesh.outbound_policy, has_grpc_web };
            self.insert(addresses, port, is_bound, target);
        }
    }

    fn add_service(
        &mut self,
        service: &Service,
        port: &ServicePort,
        addresses: Vec<IpAddr>,
        pod: Option<PodTransport>,
    ) {
        let hostname = &service.hostname;
        let (protocol, port) = (port.protocol, port.number);
        let owner = addresses.iter().find_map(|ip| self.taken.get(&(*ip, port))).cloned();
        let free: Vec<_> =
            addresses.into_iter().filter(|ip| !self.taken.contains_key(&(*ip, port))).collect();
        if let Some(owner) = owner
            && !(pod.is_some() && self.reaches_pods_alike(&owner, port, protocol))
        {
            self.conflict(service, port, Some(owner));
        }
        if free.is_empty() {
            return;
        }
        self.taken.extend(free.iter().map(|ip| ((*ip, port), hostname.clone())));
        let is_sticky = service.client_affinity && service.resolution == Resolution::ClientSide;
        let target = Target::Service { hostname: hostname.clone(), protocol, is_sticky, pod };
        self.insert(free, port, false, target);
    }

    /// True if the service reaches its pods in the same way: two headless services may have the
    /// same pods.
    fn reaches_pods_alike(&self, hostname: &Hostname, port: u16, protocol: Protocol) -> bool {
        let service = self.context.scope.service(hostname);
        let service =
            service.filter(|service| service.resolution == Resolution::OriginalDestination);
        let port = service.and_then(|service| service.port(port));
        let kind = |protocol: Protocol| (protocol.class(), protocol.is_http2());
        port.is_some_and(|port| kind(port.protocol) == kind(protocol))
    }

    fn insert(&mut self, addresses: Vec<IpAddr>, port: u16, is_bound: bool, target: Target) {
        let name = format!("{}_{port}", addresses[0]);
        let mesh = self.context.mesh;
        let listener = OutboundListener {
            name: name.clone(),
            addresses,
            port,
            is_bound,
            target,
            access_log: mesh.access_log.clone(),
            detection_timeout: mesh.detection_timeout,
        };
        if let Target::Service { hostname, .. } = &listener.target
            && let Some(routes) = listener.routes()
        {
            self.plan.routes.entry(routes).or_default().insert(hostname.clone());
        }
        self.plan.listeners.insert(name, listener);
    }

    fn conflict(&mut self, service: &Service, port: u16, taken_by: Option<Hostname>) {
        let hostname = service.hostname.clone();
        self.plan.conflicts.push(Conflict { hostname, port, taken_by });
    }
}

impl OutboundListener {
    fn routes(&self) -> Option<String> {
        match &self.target {
            Target::Hosts { .. } => Some(self.port.to_string()),
            Target::Service { pod: Some(PodTransport::Refused), .. } => None,
            Target::Service { hostname, protocol, .. } => match protocol.class() {
                ProtocolClass::Http | ProtocolClass::Detected => {
                    Some(host_routes(hostname, self.port))
                }
                ProtocolClass::Tcp | ProtocolClass::Udp => None,
            },
        }
    }

    /// Cluster of connections without requests.
    fn cluster(&self) -> String {
        match &self.target {
            Target::Hosts { policy, .. } => unknown(*policy).to_owned(),
            Target::Service { pod: Some(PodTransport::Refused), .. } => {
                names::BLACK_HOLE.to_owned()
            }
            Target::Service { hostname, .. } => names::outbound(self.port, hostname),
        }
    }

    /// True if the application can send requests alone.
    fn takes_requests_alone(&self) -> bool {
        self.is_bound && matches!(self.target, Target::Hosts { .. })
    }

    pub(super) fn references(&self) -> Vec<Reference> {
        let cluster = (!self.takes_requests_alone()).then(|| self.cluster());
        let routes = self.routes().map(to_routes);
        cluster.map(to_cluster).into_iter().chain(routes).collect()
    }

    pub(super) fn build(&self) -> Listener {
        let direction = TrafficDirection::Outbound;
        let log = self.access_log.as_deref();
        let built = listener(self.name.clone(), &self.addresses, self.port, direction);
        let built = Listener { bind_to_port: switch(self.is_bound), ..built };
        if self.takes_requests_alone() {
            return Listener { filter_chains: vec![self.http(None)], ..built };
        }
        let (name, is_sticky) = match self.target {
            Target::Hosts { .. } => ("PassthroughFilterChain", false),
            Target::Service { is_sticky, .. } => ("", is_sticky),
        };
        let cluster = self.cluster();
        let default = self.chain(name, tcp_proxy(&cluster, &cluster, is_sticky, log));
        let Some(filter_chains) = self.http_chains() else {
            return Listener { filter_chains: vec![default], ..built };
        };
        Listener {
            filter_chains,
            default_filter_chain: Some(default),
            listener_filters: vec![inspectors::http_inspector()],
            listener_filters_timeout: duration(self.detection_timeout),
            continue_on_listener_filters_timeout: true,
            ..built
        }
    }

    /// Chains of requests; `None` if the listener routes none.
    fn http_chains(&self) -> Option<Vec<FilterChain>> {
        self.routes()?;
        let is_detected = match &self.target {
            Target::Service { protocol, .. } => protocol.class() == ProtocolClass::Detected,
            Target::Hosts { .. } => false,
        };
        if !is_detected {
            return Some(vec![when(&tls::PLAIN_HTTP, self.http(None))]);
        }
        let versions: [(_, HttpAlpn); 2] =
            [(tls::PLAIN_HTTP[0], &tls::HTTP1), (tls::PLAIN_HTTP[1], &tls::HTTP2)];
        Some(versions.map(|(found, alpn)| when(&[found], self.http(Some(alpn)))).into())
    }

    fn http(&self, alpn: Option<HttpAlpn>) -> FilterChain {
        let routes = Routes::Named(self.routes().unwrap_or_default());
        let prefix = format!("outbound_{}", self.name);
        let log = self.access_log.as_deref();
        let grpc_web = match &self.target {
            Target::Hosts { has_grpc_web, .. } => *has_grpc_web,
            Target::Service { protocol, .. } => *protocol == Protocol::GrpcWeb,
        };
        let options = HttpOptions { direction: Direction::Outbound, alpn, grpc_web };
        self.chain("", connection_manager(&prefix, options, routes, log))
    }

    fn chain(&self, name: &str, filter: Filter) -> FilterChain {
        let is_plaintext =
            matches!(self.target, Target::Service { pod: Some(PodTransport::Plaintext), .. });
        let transport = is_plaintext.then(plaintext_filter);
        chain(name, transport.into_iter().chain([filter]).collect())
    }
}

impl VirtualOutbound {
    /// Returns `None` if no connections of the proxy are captured.
    pub(super) fn new(context: &Context<'_>) -> Option<Self> {
        let proxy = context.proxy;
        proxy.captures().then(|| Self {
            addresses: proxy.families().unspecified(),
            port: context.mesh.outbound_port,
            policy: context.mesh.outbound_policy,
            access_log: context.mesh.access_log.clone(),
        })
    }

    pub(super) fn references(&self) -> Vec<Reference> {
        let clusters = [names::BLACK_HOLE, unknown(self.policy)];
        clusters.into_iter().map(to_cluster).collect()
    }

    pub(super) fn build(&self) -> Listener {
        let name = names::VIRTUAL_OUTBOUND;
        let cluster = unknown(self.policy);
        let log = self.access_log.as_deref();
        let black_hole = vec![tcp_proxy(names::BLACK_HOLE, names::BLACK_HOLE, false, None)];
        let built =
            listener(name.to_owned(), &self.addresses, self.port, TrafficDirection::Outbound);
        Listener {
            use_original_dst: switch(true),
            access_log: logs_of_rejections(log),
            filter_chains: vec![
                // A connection to the listener's own port would come back for ever.
                FilterChain {
                    filter_chain_match: Some(to_port(self.port)),
                    ..chain("virtualOutbound-blackhole", black_hole)
                },
                chain(
                    "virtualOutbound-catchall-tcp",
                    vec![tcp_proxy(cluster, cluster, false, log)],
                ),
            ],
            ..built
        }
    }
}

fn when(protocols: &[&str], chain: FilterChain) -> FilterChain {
    let application_protocols = protocols.iter().map(ToString::to_string).collect();
    let found = FilterChainMatch { application_protocols, ..FilterChainMatch::default() };
    FilterChain { filter_chain_match: Some(found), ..chain }
}

/// Cluster of connections to unknown destinations.
fn unknown(policy: OutboundPolicy) -> &'static str {
    match policy {
        OutboundPolicy::AllowAny => names::PASSTHROUGH,
        OutboundPolicy::RegistryOnly => names::BLACK_HOLE,
    }
}
