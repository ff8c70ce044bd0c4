//! Endpoints of clusters.

pub mod messages;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use pilot_registry::endpoint::{Endpoint, Health};
use pilot_registry::hostname::Hostname;
use pilot_registry::locality::Locality;
use pilot_registry::protocol::ProtocolClass;
use pilot_registry::service::{Service, TrafficDistribution};
use pilot_registry::workload::Workload;
use pilot_xds::session::Reference;
use pilot_xds::type_urls::ENDPOINT;

use super::context::{Context, Origin};
use super::{Generator, names};
use crate::peer_authentication::MtlsMode;
use crate::view::ProxyView;
use messages::{
    Address, ClusterLoadAssignment, HEALTH_DRAINING, HEALTH_UNHEALTHY, HEALTH_UNKNOWN, LbEndpoint,
    LocalityLbEndpoints, SocketAddress, encoded_metadata,
};

/// Generator of endpoints (EDS).
#[derive(Clone, Copy, Debug)]
pub struct Endpoints;

/// Inputs of the endpoints of a service port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndpointInputs {
    port: u16,
    hostname: Hostname,
    /// Name of the cluster, which is part of a workload's name.
    cluster_id: Arc<str>,
    /// Distinct workloads of the members.
    workloads: Vec<WorkloadRef>,
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
    /// Index of the workload.
    workload: Option<usize>,
}

/// Workload as telemetry names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WorkloadRef {
    owner: Arc<str>,
    namespace: Arc<str>,
    canonical_name: Arc<str>,
    canonical_revision: Option<Arc<str>>,
}

impl Generator for Endpoints {
    type Inputs = EndpointInputs;
    type Message = ClusterLoadAssignment;
    const TYPE_URL: &'static str = ENDPOINT;

    fn names(context: &Context<'_>) -> BTreeSet<String> {
        let balanced = context.scope.services().filter(|service| context.is_balanced(service));
        let ports = balanced.flat_map(|service| {
            let ports = service.ports.iter();
            let ports = ports.filter(|port| port.protocol.class() != ProtocolClass::Udp);
            ports.map(move |port| names::outbound(port.number, &service.hostname))
        });
        ports.collect()
    }

    fn inputs(context: &Context<'_>, name: &str) -> Option<EndpointInputs> {
        let (port, hostname) = names::parse_outbound(name)?;
        let service = context.scope.service(&hostname);
        let service = service.filter(|service| context.is_balanced(service))?;
        let protocol = service.port(port)?.protocol;
        if protocol.class() == ProtocolClass::Udp {
            return None;
        }
        let mut groups: BTreeMap<(u32, &Locality), Vec<Member>> = BTreeMap::new();
        let mut workloads = Workloads::default();
        let endpoints = context.snapshot.endpoints(&hostname, port);
        for endpoint in endpoints.into_iter().flat_map(|set| &set.endpoints) {
            if is_used(context.proxy, service, endpoint) {
                let distance = distance(context.proxy, service.distribution, endpoint);
                let traits = workloads.traits(context, endpoint);
                let member = Member {
                    address: endpoint.address,
                    port: endpoint.port,
                    health: endpoint.health,
                    takes_mtls: traits.is_some_and(|traits| traits.takes_mtls),
                    workload: traits.map(|traits| traits.workload),
                };
                groups.entry((distance, &endpoint.locality)).or_default().push(member);
            }
        }
        let cluster_id = context.mesh.cluster_id.clone();
        let (workloads, groups) = (workloads.distinct, with_priorities(groups));
        Some(EndpointInputs { port, hostname, cluster_id, workloads, groups })
    }

    fn build(inputs: &EndpointInputs) -> ClusterLoadAssignment {
        let workloads = inputs.workloads.iter().map(|workload| workload.text(&inputs.cluster_id));
        let workloads: Vec<String> = workloads.collect();
        ClusterLoadAssignment {
            cluster_name: names::outbound(inputs.port, &inputs.hostname),
            endpoints: inputs.groups.iter().map(|group| group.build(&workloads)).collect(),
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

/// True if the proxy may send requests to the endpoint.
fn is_used(proxy: &ProxyView, service: &Service, endpoint: &Endpoint) -> bool {
    let takes_requests = match endpoint.health {
        Health::Healthy | Health::Draining => true,
        Health::Unhealthy => service.publish_not_ready,
        Health::Terminating | Health::Waiting => false,
    };
    let is_near = !service.node_local || (!proxy.node.is_empty() && endpoint.node == proxy.node);
    takes_requests && is_near && proxy.families().has(endpoint.address)
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
fn with_priorities(groups: BTreeMap<(u32, &Locality), Vec<Member>>) -> Vec<Group> {
    let distances: BTreeSet<u32> = groups.keys().map(|(distance, _)| *distance).collect();
    let priorities: BTreeMap<u32, u32> = distances.into_iter().zip(0..).collect();
    let group = |((distance, locality), endpoints): ((u32, &Locality), _)| Group {
        priority: priorities[&distance],
        locality: locality.clone(),
        endpoints,
    };
    groups.into_iter().map(group).collect()
}

/// True if the proxy of one endpoint of a port takes mutual TLS.
pub(super) fn any_takes_mtls(context: &Context<'_>, hostname: &Hostname, port: u16) -> bool {
    let set = context.snapshot.endpoints(hostname, port);
    let endpoints = set.map_or(&[][..], |set| &set.endpoints);
    endpoints.iter().any(|endpoint| takes_mtls(context, endpoint))
}

/// True if the endpoint's proxy takes mutual TLS on the port.
pub(super) fn takes_mtls(context: &Context<'_>, endpoint: &Endpoint) -> bool {
    let mode = |workload: &Workload| {
        context.policies.mode_at(&workload.namespace, &workload.labels, endpoint.port)
    };
    let takes = |workload: &Workload| workload.takes_mtls && mode(workload) != MtlsMode::Disable;
    endpoint.workload.as_deref().is_some_and(takes)
}

impl Group {
    fn build(&self, workloads: &[String]) -> LocalityLbEndpoints {
        let Locality { region, zone, subzone } = &self.locality;
        // Pods of one Deployment have the same metadata.
        let mut last: Option<(&Member, Bytes)> = None;
        let endpoints = self.endpoints.iter().map(|member| {
            let same = last.as_ref().filter(|(before, _)| before.has_metadata_of(member));
            let metadata =
                same.map_or_else(|| member.metadata(workloads), |(_, known)| known.clone());
            last = Some((member, metadata.clone()));
            member.build(metadata)
        });
        LocalityLbEndpoints {
            locality: Some(messages::Locality {
                region: region.to_string(),
                zone: zone.to_string(),
                sub_zone: subzone.to_string(),
            }),
            endpoints: endpoints.collect(),
            weight: Some(u32::try_from(self.endpoints.len()).unwrap_or(u32::MAX)),
            priority: self.priority,
        }
    }
}

impl Member {
    fn build(&self, metadata: Bytes) -> LbEndpoint {
        let health = match self.health {
            Health::Healthy => HEALTH_UNKNOWN,
            Health::Unhealthy | Health::Terminating | Health::Waiting => HEALTH_UNHEALTHY,
            Health::Draining => HEALTH_DRAINING,
        };
        let address =
            SocketAddress { address: self.address.to_string(), port: u32::from(self.port) };
        LbEndpoint {
            endpoint: Some(messages::Endpoint {
                address: Some(Address { socket_address: Some(address) }),
            }),
            health,
            metadata: (!metadata.is_empty()).then_some(metadata),
            weight: Some(1),
        }
    }

    fn metadata(&self, workloads: &[String]) -> Bytes {
        let tls = self.takes_mtls.then_some(("envoy.transport_socket_match", "tlsMode", "istio"));
        let workload = self.workload.and_then(|index| workloads.get(index));
        let workload = workload.map(|text| ("istio", "workload", text.as_str()));
        encoded_metadata(tls.into_iter().chain(workload))
    }

    fn has_metadata_of(&self, other: &Self) -> bool {
        (self.takes_mtls, self.workload) == (other.takes_mtls, other.workload)
    }
}

/// Distinct workloads of a set of endpoints. They are few: pods of one Deployment are equal here.
#[derive(Debug, Default)]
struct Workloads<'a> {
    distinct: Vec<WorkloadRef>,
    /// Workload, port and traits of the last endpoint.
    last: Option<(&'a Workload, u16, WorkloadTraits)>,
}

/// Properties that the pods of one Deployment share.
#[derive(Clone, Copy, Debug)]
struct WorkloadTraits {
    /// Index of the workload.
    workload: usize,
    takes_mtls: bool,
}

impl<'a> Workloads<'a> {
    fn traits(&mut self, context: &Context<'_>, endpoint: &'a Endpoint) -> Option<WorkloadTraits> {
        let (workload, port) = (endpoint.workload.as_deref()?, endpoint.port);
        let features = |it: &'a Workload| (&it.labels, &it.owner, &it.namespace, it.takes_mtls);
        let is_alike = |last: &'a Workload| features(last) == features(workload);
        let known = self.last.filter(|(last, of, _)| *of == port && is_alike(last));
        let (_, _, traits) = known.unwrap_or_else(|| {
            let takes_mtls = takes_mtls(context, endpoint);
            (workload, port, WorkloadTraits { workload: self.index(workload), takes_mtls })
        });
        self.last = Some((workload, port, traits));
        Some(traits)
    }

    fn index(&mut self, workload: &Workload) -> usize {
        let workload = WorkloadRef::new(workload);
        let known = self.distinct.iter().position(|known| *known == workload);
        known.unwrap_or_else(|| {
            self.distinct.push(workload);
            self.distinct.len() - 1
        })
    }
}

impl WorkloadRef {
    fn new(workload: &Workload) -> Self {
        let label = |keys: &[&str]| keys.iter().find_map(|key| workload.labels.get(key)).cloned();
        Self {
            owner: workload.owner.clone(),
            namespace: workload.namespace.clone(),
            canonical_name: label(&CANONICAL_NAME).unwrap_or_else(|| workload.owner.clone()),
            canonical_revision: label(&CANONICAL_REVISION),
        }
    }

    /// Text that Istio's telemetry expects.
    fn text(&self, cluster_id: &str) -> String {
        let Self { owner, namespace, canonical_name, canonical_revision } = self;
        let revision = canonical_revision.as_deref().unwrap_or_default();
        format!("{owner};{namespace};{canonical_name};{revision};{cluster_id}")
    }
}

/// Labels with the name of an application, the first one first.
const CANONICAL_NAME: [&str; 3] =
    ["service.istio.io/canonical-name", "app.kubernetes.io/name", "app"];
/// Labels with the revision of an application, the first one first.
const CANONICAL_REVISION: [&str; 3] =
    ["service.istio.io/canonical-revision", "app.kubernetes.io/version", "version"];
