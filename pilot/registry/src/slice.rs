//! Slices: parts of the endpoints of a service, from which endpoint sets are joined.

use std::net::IpAddr;
use std::sync::Arc;

use crate::event::ObjectKey;

/// `EndpointSlice` of one address family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Name.
    pub name: Arc<str>,
    /// Namespace of the slice and of its service.
    pub namespace: Arc<str>,
    /// Name of the service, by the label `kubernetes.io/service-name`.
    pub service: Arc<str>,
    /// Ports of all endpoints of the slice.
    pub ports: Vec<SlicePort>,
    /// Endpoints.
    pub endpoints: Vec<SliceEndpoint>,
}

impl Slice {
    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.clone(), self.name.clone())
    }

    pub(crate) fn service_key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.clone(), self.service.clone())
    }
}

/// Port of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// Name of the service's port.
    pub name: Arc<str>,
    /// Port that the application listens on.
    pub number: u16,
}

/// Endpoint of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// Address.
    pub address: IpAddr,
    /// Readiness.
    pub condition: Condition,
    /// Name of the pod (`targetRef`); `None` for addresses without one.
    pub pod: Option<Arc<str>>,
    /// Name of the node; empty if unknown.
    pub node: Arc<str>,
    /// Zone; empty if unknown.
    pub zone: Arc<str>,
    /// Name within a headless service.
    pub hostname: Option<Arc<str>>,
}

/// Conditions of an endpoint, reduced to the combinations that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Ready.
    Ready,
    /// Not ready.
    NotReady,
    /// Serves what it has and ends.
    ServingTerminating,
    /// Ends and does not serve.
    Terminating,
}

impl Condition {
    /// Condition by the fields of `conditions`; a missing `ready` is true, a missing `serving` is
    /// `ready`, a missing `terminating` is false.
    pub fn new(ready: Option<bool>, serving: Option<bool>, terminating: Option<bool>) -> Self {
        let ready = ready.unwrap_or(true);
        match (ready, terminating.unwrap_or(false), serving.unwrap_or(ready)) {
            (true, _, _) => Self::Ready,
            (false, false, _) => Self::NotReady,
            (false, true, true) => Self::ServingTerminating,
            (false, true, false) => Self::Terminating,
        }
    }
}
