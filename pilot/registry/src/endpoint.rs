//! Endpoints of services.

use std::net::IpAddr;
use std::sync::Arc;

use crate::hash::content_hash;
use crate::locality::Locality;
use crate::workload::Workload;

/// Endpoint of one service port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Address that the application listens on.
    pub address: IpAddr,
    /// Port that the application listens on; named target ports are resolved.
    pub port: u16,
    /// Readiness.
    pub health: Health,
    /// Place of the endpoint.
    pub locality: Locality,
    /// Name of the node; empty if unknown.
    pub node: Arc<str>,
    /// The workload at the address; `None` while [`Health::Waiting`], and for addresses without one.
    pub workload: Option<Arc<Workload>>,
    /// Name of the endpoint within a headless service (`hostname` of the slice's endpoint).
    pub hostname: Option<Arc<str>>,
}

/// Endpoints of one service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSet {
    /// Endpoints in the order of address and port; each such pair stands once.
    pub endpoints: Vec<Endpoint>,
    /// Hash of the endpoints, equal in all replicas.
    pub hash: u64,
}

impl EndpointSet {
    pub(crate) fn new(endpoints: Vec<Endpoint>) -> Self {
        Self { hash: content_hash(&endpoints), endpoints }
    }
}

/// Readiness of an endpoint. Terminating endpoints are left out, unless they drain or clients choose
/// them by their addresses, as those of a headless service do. The better state is the smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// Takes requests.
    Healthy,
    /// Not ready.
    Unhealthy,
    /// Serves what it has and ends.
    Draining,
    /// Ends, and takes connections by its address until its slice drops it.
    Terminating,
    /// Takes no connection: the pod that the slice names is not known, or has other addresses. The
    /// address may be a foreigner's.
    Waiting,
}

impl Health {
    /// True if names may lead to the endpoint; `publish_not_ready` is the service's
    /// `publishNotReadyAddresses`.
    pub fn is_listed(self, publish_not_ready: bool) -> bool {
        match self {
            Self::Healthy => true,
            Self::Unhealthy | Self::Draining => publish_not_ready,
            Self::Terminating | Self::Waiting => false,
        }
    }
}
