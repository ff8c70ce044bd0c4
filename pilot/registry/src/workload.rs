//! Workloads: pods, and what a proxy beside them needs to know.

use std::net::IpAddr;
use std::sync::Arc;

use crate::hostname::Hostname;
use crate::locality::Locality;
use crate::service::{Labels, ServicePort};

/// Running pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Workload {
    /// Name of the pod.
    pub name: Arc<str>,
    /// Namespace of the pod.
    pub namespace: Arc<str>,
    /// Addresses, the primary one first.
    pub addresses: Vec<IpAddr>,
    /// Labels; their sets are the versions of a service.
    pub labels: Labels,
    /// Name of the service account.
    pub service_account: Arc<str>,
    /// Name of the node.
    pub node: Arc<str>,
    /// Place, by the node's labels or the pod's label `istio-locality`.
    pub locality: Locality,
    /// True if the pod's proxy takes mutual TLS: label `security.istio.io/tlsMode: istio`.
    pub takes_mtls: bool,
    /// True if the pod shares its addresses with the node.
    pub host_network: bool,
    /// `spec.hostname`, for names of pods in DNS.
    pub hostname: Option<Arc<str>>,
    /// `spec.subdomain`, for names of pods in DNS.
    pub subdomain: Option<Arc<str>>,
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
