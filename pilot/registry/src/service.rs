//! Services.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::hostname::Hostname;
use crate::protocol::Protocol;

/// Labels of an object or of a selector, in the order of their keys.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// Service of the mesh. Its endpoints are separate values, since they change far more often.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Service {
    /// Unique name.
    pub hostname: Hostname,
    /// Name of the object.
    pub name: Arc<str>,
    /// Namespace of the object.
    pub namespace: Arc<str>,
    /// Registry that the service comes from.
    pub registry: RegistryKind,
    /// Ports, in the order of the object.
    pub ports: Vec<ServicePort>,
    /// Way to the endpoints.
    pub resolution: Resolution,
    /// Virtual addresses (`clusterIPs`), the first family first; empty for a headless service.
    pub addresses: Vec<IpAddr>,
    /// Visibility to other namespaces.
    pub export_to: ExportTo,
    /// Seconds since 1970 at which the object was created: the oldest service wins conflicts.
    pub created: i64,
    /// True if endpoints that are not ready are to be sent (`publishNotReadyAddresses`).
    pub publish_not_ready: bool,
    /// True if clients use endpoints of their own node only (`internalTrafficPolicy: Local`).
    pub node_local: bool,
    /// Preference for near endpoints (`trafficDistribution`).
    pub distribution: TrafficDistribution,
}

/// Port of a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServicePort {
    /// Name; empty if the service has one port without a name.
    pub name: Arc<str>,
    /// Number that clients use.
    pub number: u16,
    /// Application protocol.
    pub protocol: Protocol,
}

/// Registries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RegistryKind {
    /// Services of Kubernetes, from the API server or from files.
    Kubernetes,
    /// Hosts of `ServiceEntry` objects.
    External,
}

/// Way from a service to its endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// The client's proxy balances over the endpoints.
    ClientSide,
    /// The address that the client chose is kept: headless services.
    OriginalDestination,
    /// Another name for a host (`ExternalName`).
    Alias(Hostname),
}

/// Namespaces that may use a service: `networking.istio.io/exportTo`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExportTo {
    /// All namespaces, `*`.
    All,
    /// The given namespaces; an own namespace (`.`) is resolved to its name, `~` gives none.
    Namespaces(Vec<Arc<str>>),
}

/// Preference among endpoints: `spec.trafficDistribution`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TrafficDistribution {
    /// None.
    #[default]
    Any,
    /// Endpoints of the same zone first.
    PreferSameZone,
    /// Endpoints of the same node first.
    PreferSameNode,
}
