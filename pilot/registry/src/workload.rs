//! Workloads: pods, and what a proxy beside them needs to know.

use std::net::IpAddr;
use std::sync::Arc;

use crate::hostname::Hostname;
use crate::labels::Labels;
use crate::locality::Locality;
use crate::protocol::Protocol;
use crate::service::{ServicePort, TargetPort};

/// Running pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Workload {
    /// Name of the pod.
    pub name: Arc<str>,
    /// Namespace of the pod.
    pub namespace: Arc<str>,
    /// Addresses, the primary one first.
    pub addresses: Vec<IpAddr>,
    /// Name of the Deployment, StatefulSet or other object that the pod belongs to, or its own.
    pub owner: Arc<str>,
    /// Labels; their sets are the versions of a service.
    pub labels: Labels,
    /// Name of the service account.
    pub service_account: Arc<str>,
    /// Name of the node.
    pub node: Arc<str>,
    /// Place, by the node's labels or the pod's label `istio-locality`.
    pub locality: Locality,
    /// True if the pod's proxy takes mutual TLS: label `security.istio.io/tlsMode: istio`,
    /// unless it captures nothing.
    pub takes_mtls: bool,
    /// True if the pod shares its addresses with the node.
    pub host_network: bool,
    /// `spec.hostname`, for names of pods in DNS.
    pub hostname: Option<Arc<str>>,
    /// `spec.subdomain`, for names of pods in DNS.
    pub subdomain: Option<Arc<str>>,
    /// Named ports of the containers, in the order of the pod.
    pub ports: Arc<[WorkloadPort]>,
}

/// Named port of a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkloadPort {
    /// Name.
    pub name: Arc<str>,
    /// Number.
    pub number: u16,
    /// True for a port of UDP.
    pub is_udp: bool,
}

impl Workload {
    /// Port on which this workload takes the connections to a service port. `None` if the target
    /// is a name that no container has.
    pub fn target(&self, service_port: &ServicePort) -> Option<u16> {
        let name = match &service_port.target {
            TargetPort::Number(number) => return Some(*number),
            TargetPort::Name(name) => name,
        };
        let is_udp = service_port.protocol == Protocol::Udp;
        let named = self.ports.iter().find(|port| port.name == *name && port.is_udp == is_udp);
        named.map(|port| port.number)
    }
}

/// Port of a workload that a service leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InboundTarget {
    /// Port that the application listens on.
    pub port: u16,
    /// Service that leads to the port.
    pub service: Hostname,
    /// Port of the service.
    pub service_port: ServicePort,
}
