//! Endpoints of clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use envoy_types::pb::envoy::config::core::v3::{HealthStatus, Locality as EnvoyLocality};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint as EnvoyEndpoint, LbEndpoint, LocalityLbEndpoints,
};
use pilot_registry::endpoint::{Endpoint, Health};
use pilot_registry::hostname::Hostname;
use pilot_registry::locality::Locality;
use pilot_registry::protocol::ProtocolClass;
use pilot_registry::service::{Resolution, Service, TrafficDistribution};
use pilot_registry::workload::Workload;
use pilot_xds::session::Reference;
use pilot_xds::type_urls::ENDPOINT;

use super::context::{Context, Origin};
use super::message::{address, metadata, number};
use super::{Generator, names, tls};
use crate::peer_authentication::MtlsMode;
use crate::view::ProxyView;

/// Generator of endpoints (EDS).
#[derive(Clone, Copy, Debug)]
pub struct Endpoints;

/// Inputs of the endpoints of a service port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndpointInputs {
    port: u16,
    hostname: Hostname,
    /// Groups in the order of priority, then locality.
    groups: Vec<Group>,
}

/// Endpoints of one priority and locality.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    priority: u32,
    locality: Locality,
    endpoints: Vec<Member>,
}

/// Endpoint as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Member {
    address: IpAddr,
    port: u16,
    health: Health,
    takes_mtls: bool,
}

impl Generator for Endpoints {
    type Inputs = EndpointInputs;
    type Message = ClusterLoadAssignment;
    const TYPE_URL: &'static str = ENDPOINT;

    fn names(context: &Context<'_>) -> BTreeSet<String> {
        let balanced = context.scope.services().filter(|service| is_balanced(service));
        let ports = balanced.flat_map(|service| {
            let ports = service.ports.iter();
            let ports = ports.filter(|port| port.protocol.class() != ProtocolClass::Udp);
            ports.map(move |port| names::outbound(port.number, &service.hostname))
        });
        ports.collect()
    }

    fn inputs(context: &Context<'_>, name: &str) -> Option<EndpointInputs> {
        let (port, hostname) = names::parse_outbound(name)?;
        let service = context.scope.service(&hostname).filter(|service| is_balanced(service))?;
        let protocol = service.port(port)?.protocol;
        if protocol.class() == ProtocolClass::Udp {
            return None;
        }
        let mut groups: BTreeMap<(u32, Locality), Vec<Member>> = BTreeMap::new();
        let endpoints = context.snapshot.endpoints(&hostname, port);
        for endpoint in endpoints.into_iter().flat_map(|set| &set.endpoints) {
            if is_used(context.proxy, service, endpoint) {
                let distance = distance(context.proxy, service.distribution, endpoint);
                let member = Member {
                    address: endpoint.address,
                    port: endpoint.port,
                    health: endpoint.health,
                    takes_mtls: takes_mtls(context, endpoint),
                };
                let key = (distance, endpoint.locality.clone());
                groups.entry(key).or_default().push(member);
            }
        }
        Some(EndpointInputs { port, hostname, groups: with_priorities(groups) })
    }

    fn build(inputs: &EndpointInputs) -> ClusterLoadAssignment {
        ClusterLoadAssignment {
            cluster_name: names::outbound(inputs.port, &inputs.hostname),
            endpoints: inputs.groups.iter().map(Group::build).collect(),
            ..ClusterLoadAssignment::default()
        }
    }

    fn references(_: &EndpointInputs) -> Vec<Reference> {
        Vec::new()
    }

    fn why(context: &Context<'_>, name: &str) -> BTreeSet<Origin> {
        let Some((port, hostname)) = names::parse_outbound(name) else { return BTreeSet::new() };
        let service = context.scope.service(&hostname).map(|service| Origin::service(service));
        let set = context.snapshot.endpoints(&hostname, port);
        let workloads = set.into_iter().flat_map(|set| &set.endpoints);
        let workloads = workloads.filter_map(|endpoint| endpoint.workload.as_ref());
        let pods = workloads.map(|it| Origin::new("Pod", &it.namespace, &it.name));
        service.into_iter().chain(pods).collect()
    }
}

fn is_balanced(service: &Service) -> bool {
    service.resolution == Resolution::ClientSide
}

/// True if the proxy may send requests to the endpoint.
fn is_used(proxy: &ProxyView, service: &Service, endpoint: &Endpoint) -> bool {
    let is_known = endpoint.health != Health::Unhealthy || service.publish_not_ready;
    let is_near = !service.node_local || (!proxy.node.is_empty() && endpoint.node == proxy.node);
    is_known && is_near && proxy.families().has(endpoint.address)
}

/// Order of preference among endpoints: the lowest distance takes the requests.
fn distance(proxy: &ProxyView, distribution: TrafficDistribution, endpoint: &Endpoint) -> u32 {
    let same_node = !proxy.node.is_empty() && endpoint.node == proxy.node;
    let same_zone = !proxy.locality.zone.is_empty()
        && (&endpoint.locality.region, &endpoint.locality.zone)
            == (&proxy.locality.region, &proxy.locality.zone);
    match distribution {
        TrafficDistribution::Any => 0,
        TrafficDistribution::PreferSameZone => u32::from(!same_zone),
        TrafficDistribution::PreferSameNode if same_node => 0,
        TrafficDistribution::PreferSameNode => 1 + u32::from(!same_zone),
    }
}

/// Turns distances into priorities, which Envoy requires without gaps.
fn with_priorities(groups: BTreeMap<(u32, Locality), Vec<Member>>) -> Vec<Group> {
    let distances: BTreeSet<u32> = groups.keys().map(|(distance, _)| *distance).collect();
    let priorities: BTreeMap<u32, u32> = distances.into_iter().zip(0..).collect();
    let group = |((distance, locality), endpoints): ((u32, Locality), _)| Group {
        priority: priorities[&distance],
        locality,
        endpoints,
    };
    groups.into_iter().map(group).collect()
}

/// True if the endpoint's proxy takes mutual TLS on the port.
fn takes_mtls(context: &Context<'_>, endpoint: &Endpoint) -> bool {
    let mode = |workload: &Workload| {
        context.policies.mode_at(&workload.namespace, &workload.labels, endpoint.port)
    };
    let takes = |workload: &Workload| workload.takes_mtls && mode(workload) != MtlsMode::Disable;
    endpoint.workload.as_deref().is_some_and(takes)
}

impl Group {
    fn build(&self) -> LocalityLbEndpoints {
        let Locality { region, zone, subzone } = &self.locality;
        LocalityLbEndpoints {
            locality: Some(EnvoyLocality {
                region: region.to_string(),
                zone: zone.to_string(),
                sub_zone: subzone.to_string(),
            }),
            load_balancing_weight: number(u32::try_from(self.endpoints.len()).unwrap_or(u32::MAX)),
            lb_endpoints: self.endpoints.iter().map(Member::build).collect(),
            priority: self.priority,
            ..LocalityLbEndpoints::default()
        }
    }
}

impl Member {
    fn build(&self) -> LbEndpoint {
        let health = match self.health {
            Health::Healthy => HealthStatus::Unknown,
            Health::Unhealthy => HealthStatus::Unhealthy,
            Health::Draining => HealthStatus::Draining,
        };
        let endpoint = EnvoyEndpoint {
            address: Some(address(&self.address, self.port)),
            ..EnvoyEndpoint::default()
        };
        LbEndpoint {
            health_status: health.into(),
            load_balancing_weight: number(1),
            metadata: self
                .takes_mtls
                .then(|| metadata("envoy.transport_socket_match", tls::tls_mode())),
            host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
        }
    }
}
