//! Clusters.

mod inbound;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, CommonLbConfig, CustomClusterType, DiscoveryType, EdsClusterConfig,
    LbPolicy,
};
use envoy_types::pb::envoy::config::cluster::v3::{CircuitBreakers, Cluster};
use envoy_types::pb::envoy::config::core::v3::{
    Address, Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions as CommonOptions,
};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
};
use envoy_types::pb::envoy::extensions::clusters::common::dns::v3::DnsLookupFamily;
use envoy_types::pb::envoy::extensions::clusters::dns::v3::DnsCluster;
use envoy_types::pb::envoy::extensions::clusters::dns::v3::dns_cluster::RefreshRate;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions, UseDownstreamHttpConfig, explicit_http_config,
};
use envoy_types::pb::envoy::r#type::v3::Percent;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Any, Value};
use pilot_registry::hostname::Hostname;
use pilot_registry::protocol::{Protocol, ProtocolClass};
use pilot_registry::service::{Resolution, Service, ServicePort};
use pilot_xds::session::Reference;
use pilot_xds::type_urls::CLUSTER;

use super::context::{Context, Origin};
use super::endpoints::any_takes_mtls;
use super::message::{address, ads, any, duration, list, metadata, number, object, switch, text};
use super::routes::is_routed_by_host;
use super::tls::{self, ClientTls};
use super::{Generator, names, to_endpoints};
use crate::scope::AliasTarget;
use crate::view::{Families, ProxyKind};

pub use inbound::InboundCluster;

/// Generator of clusters (CDS).
#[derive(Clone, Copy, Debug)]
pub struct Clusters;

/// Inputs of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClusterInputs {
    /// A port of a service.
    Service(ServiceCluster),
    /// An alias of a host that the mesh does not know.
    Alias(AliasCluster),
    /// Connections to unknown destinations.
    Passthrough,
    /// No destination.
    BlackHole,
    /// The application.
    Inbound(InboundCluster),
}

/// Inputs of the cluster of a service port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceCluster {
    host: ServiceRef,
    port: u16,
    protocol: Protocol,
    is_balanced: bool,
    is_sticky: bool,
    tls: Option<ClientTls>,
}

/// Inputs of the cluster of an alias.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AliasCluster {
    host: ServiceRef,
    port: u16,
    protocol: Protocol,
    target: Hostname,
    families: Families,
}

/// Service as a cluster's metadata names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceRef {
    hostname: Hostname,
    name: Arc<str>,
    namespace: Arc<str>,
}

impl Generator for Clusters {
    type Inputs = ClusterInputs;
    type Message = Cluster;
    const TYPE_URL: &'static str = CLUSTER;

    fn names(context: &Context<'_>) -> BTreeSet<String> {
        let services = context.scope.services();
        let ports =
            services.flat_map(|service| service.ports.iter().map(move |port| (service, port)));
        let mut found: BTreeSet<_> = ports
            .filter(|(service, port)| has_cluster(context, service, port))
            .map(|(service, port)| names::outbound(port.number, &service.hostname))
            .collect();
        found.insert(names::BLACK_HOLE.to_owned());
        if context.proxy.kind == ProxyKind::Sidecar {
            found.insert(names::PASSTHROUGH.to_owned());
        }
        if context.proxy.captures() {
            found.insert(names::INBOUND_PASSTHROUGH.to_owned());
            found.extend(context.inbound_ports().map(|target| names::inbound(target.port)));
        }
        found
    }

    fn inputs(context: &Context<'_>, name: &str) -> Option<ClusterInputs> {
        match name {
            names::PASSTHROUGH => return Some(ClusterInputs::Passthrough),
            names::BLACK_HOLE => return Some(ClusterInputs::BlackHole),
            _ => {}
        }
        if let Some(inbound) = InboundCluster::new(context, name) {
            return Some(ClusterInputs::Inbound(inbound));
        }
        let (port, hostname) = names::parse_outbound(name)?;
        let service = context.scope.service(&hostname)?;
        let port = service.port(port)?;
        has_cluster(context, service, port).then(|| service_inputs(context, service, port))
    }

    fn build(inputs: &ClusterInputs) -> Cluster {
        match inputs {
            ClusterInputs::Service(service) => service.build(),
            ClusterInputs::Alias(alias) => alias.build(),
            ClusterInputs::Inbound(inbound) => inbound.build(),
            ClusterInputs::Passthrough => Cluster {
                typed_extension_protocol_options: downstream_options(UNKNOWN_IDLE),
                ..original_destination(names::PASSTHROUGH)
            },
            ClusterInputs::BlackHole => {
                cluster(names::BLACK_HOLE, DiscoveryType::Static, LbPolicy::RoundRobin)
            }
        }
    }

    fn references(inputs: &ClusterInputs) -> Vec<Reference> {
        match inputs {
            ClusterInputs::Service(service) if service.is_balanced => {
                vec![to_endpoints(service.name())]
            }
            _ => Vec::new(),
        }
    }

    fn why(context: &Context<'_>, name: &str) -> BTreeSet<Origin> {
        let mut origins = BTreeSet::new();
        if let Some(port) = names::parse_inbound(name) {
            origins.insert(context.origin_of_workload());
            let mut targets = context.targets.iter().filter(|target| target.port == port);
            let oldest = targets.next().and_then(|it| context.snapshot.service(&it.service));
            origins.extend(oldest.map(|service| Origin::service(service)));
        } else if let Some((port, hostname)) = names::parse_outbound(name) {
            let service = context.scope.service(&hostname);
            origins.extend(service.map(|service| Origin::service(service)));
            let accounts = context.snapshot.service_accounts(&hostname, port);
            origins.extend(
                accounts
                    .iter()
                    .map(|(namespace, name)| Origin::new("ServiceAccount", namespace, name)),
            );
        } else {
            origins.insert(Origin::mesh());
        }
        origins
    }
}

/// True if the port has a cluster. Aliases of services use those of their targets, and only HTTP
/// reaches other aliases, which have no address of their own.
fn has_cluster(context: &Context<'_>, service: &Service, port: &ServicePort) -> bool {
    match service.resolution {
        Resolution::Alias(_) => is_routed_by_host(context, service, port),
        Resolution::ClientSide | Resolution::OriginalDestination => {
            port.protocol.class() != ProtocolClass::Udp
        }
    }
}

fn service_inputs(context: &Context<'_>, service: &Service, port: &ServicePort) -> ClusterInputs {
    let host = ServiceRef {
        hostname: service.hostname.clone(),
        name: service.name.clone(),
        namespace: service.namespace.clone(),
    };
    let (port, protocol) = (port.number, port.protocol);
    if let Resolution::Alias(target) = &service.resolution
        && let AliasTarget::External(target) = context.scope.alias_target(target)
    {
        let families = context.proxy.families();
        return ClusterInputs::Alias(AliasCluster { host, port, protocol, target, families });
    }
    let is_balanced = context.is_balanced(service);
    let accounts = || context.snapshot.service_accounts(&service.hostname, port);
    let takes_mtls = is_balanced || any_takes_mtls(context, &service.hostname, port);
    let tls = (takes_mtls && context.mesh.auto_mtls).then(|| ClientTls {
        server_name: names::server_name(port, &service.hostname),
        identities: accounts()
            .iter()
            .flat_map(|(namespace, account)| context.mesh.identities(namespace, account))
            .collect(),
        protocol,
        min_version: context.mesh.min_tls_version,
    });
    let is_sticky = service.client_affinity && is_balanced;
    let cluster = ServiceCluster { host, port, protocol, is_balanced, is_sticky, tls };
    ClusterInputs::Service(cluster)
}

impl ServiceCluster {
    fn name(&self) -> String {
        names::outbound(self.port, &self.host.hostname)
    }

    fn build(&self) -> Cluster {
        let cluster = if self.is_balanced {
            let policy = if self.is_sticky { LbPolicy::RingHash } else { LbPolicy::LeastRequest };
            Cluster {
                eds_cluster_config: Some(EdsClusterConfig {
                    eds_config: Some(ads()),
                    service_name: self.name(),
                }),
                common_lb_config: Some(CommonLbConfig {
                    // Unhealthy endpoints get no requests, not even if most are unhealthy.
                    healthy_panic_threshold: Some(Percent { value: 0.0 }),
                    ..CommonLbConfig::default()
                }),
                transport_socket_matches: self.tls.iter().flat_map(tls::socket_matches).collect(),
                ..cluster(&self.name(), DiscoveryType::Eds, policy)
            }
        } else {
            // Listeners of pods name the socket. The one without a name is for other addresses, to
            // which requests with the service's host lead.
            Cluster {
                transport_socket: self.tls.as_ref().map(tls::client_socket),
                transport_socket_matches: self.tls.iter().flat_map(tls::socket_matches).collect(),
                transport_socket_matcher: self.tls.as_ref().map(|_| tls::socket_choice()),
                ..original_destination(&self.name())
            }
        };
        Cluster {
            typed_extension_protocol_options: protocol_options(self.protocol),
            metadata: Some(metadata("istio", self.host.metadata())),
            ..cluster
        }
    }
}

impl AliasCluster {
    fn build(&self) -> Cluster {
        let name = names::outbound(self.port, &self.host.hostname);
        let family = match self.families {
            Families::V4 => DnsLookupFamily::V4Only,
            Families::V6 => DnsLookupFamily::V6Only,
            Families::V4First | Families::V6First => DnsLookupFamily::All,
        };
        let dns = DnsCluster {
            dns_lookup_family: family.into(),
            dns_refresh_rate: duration(Duration::from_secs(60)),
            dns_failure_refresh_rate: Some(RefreshRate {
                base_interval: duration(Duration::from_secs(1)),
                max_interval: duration(Duration::from_secs(10)),
            }),
            respect_dns_ttl: true,
            ..DnsCluster::default()
        };
        let dns = CustomClusterType {
            name: "envoy.clusters.dns".to_owned(),
            typed_config: Some(any(&dns)),
        };
        Cluster {
            cluster_discovery_type: Some(ClusterDiscoveryType::ClusterType(dns)),
            load_assignment: Some(assignment(&name, address(self.target.as_str(), self.port))),
            typed_extension_protocol_options: protocol_options(self.protocol),
            metadata: Some(metadata("istio", self.host.metadata())),
            // No start of a pod waits for the name servers of others.
            wait_for_warm_on_init: switch(false),
            ..cluster(&name, DiscoveryType::Static, LbPolicy::LeastRequest)
        }
    }
}

impl ServiceRef {
    fn metadata(&self) -> envoy_types::pb::google::protobuf::Struct {
        let service = object([
            ("host", text(self.hostname.as_str())),
            ("name", text(&self.name)),
            ("namespace", text(&self.namespace)),
        ]);
        let service = Value { kind: Some(Kind::StructValue(service)) };
        object([("services", list(vec![service]))])
    }
}

/// Time after which an idle connection to an unknown destination is closed: nothing limits their
/// number.
const UNKNOWN_IDLE: Duration = Duration::from_secs(300);

fn cluster(name: &str, discovery: DiscoveryType, policy: LbPolicy) -> Cluster {
    Cluster {
        name: name.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(discovery.into())),
        lb_policy: policy.into(),
        connect_timeout: duration(Duration::from_secs(10)),
        circuit_breakers: Some(CircuitBreakers {
            thresholds: vec![Thresholds {
                max_connections: number(u32::MAX),
                max_pending_requests: number(u32::MAX),
                max_requests: number(u32::MAX),
                max_retries: number(u32::MAX),
                ..Thresholds::default()
            }],
            ..CircuitBreakers::default()
        }),
        ..Cluster::default()
    }
}

fn original_destination(name: &str) -> Cluster {
    cluster(name, DiscoveryType::OriginalDst, LbPolicy::ClusterProvided)
}

fn assignment(cluster: &str, address: Address) -> ClusterLoadAssignment {
    let endpoint = Endpoint { address: Some(address), ..Endpoint::default() };
    let endpoint = LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
        ..LbEndpoint::default()
    };
    ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: vec![endpoint],
            ..LocalityLbEndpoints::default()
        }],
        ..ClusterLoadAssignment::default()
    }
}

/// HTTP version towards the server; without an entry it is HTTP/1.1.
fn protocol_options(protocol: Protocol) -> HashMap<String, Any> {
    let options = match protocol.class() {
        ProtocolClass::Http if protocol.is_http2() => {
            let http2 = Http2ProtocolOptions::default();
            let http2 = explicit_http_config::ProtocolConfig::Http2ProtocolOptions(http2);
            UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
                protocol_config: Some(http2),
            })
        }
        ProtocolClass::Detected => downstream_version(),
        ProtocolClass::Http | ProtocolClass::Tcp | ProtocolClass::Udp => return [].into(),
    };
    options_entry(&HttpProtocolOptions {
        upstream_protocol_options: Some(options),
        ..HttpProtocolOptions::default()
    })
}

/// The client's HTTP version, on connections that are closed when they have been idle for a time.
fn downstream_options(idle: Duration) -> HashMap<String, Any> {
    options_entry(&HttpProtocolOptions {
        common_http_protocol_options: Some(CommonOptions {
            idle_timeout: duration(idle),
            ..CommonOptions::default()
        }),
        upstream_protocol_options: Some(downstream_version()),
        ..HttpProtocolOptions::default()
    })
}

fn downstream_version() -> UpstreamProtocolOptions {
    UpstreamProtocolOptions::UseDownstreamProtocolConfig(UseDownstreamHttpConfig {
        http_protocol_options: Some(Http1ProtocolOptions::default()),
        http2_protocol_options: Some(Http2ProtocolOptions::default()),
        ..UseDownstreamHttpConfig::default()
    })
}

fn options_entry(options: &HttpProtocolOptions) -> HashMap<String, Any> {
    let key = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions".to_owned();
    [(key, any(options))].into()
}
