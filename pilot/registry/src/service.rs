//! Services.

use std::net::IpAddr;
use std::sync::Arc;

use crate::event::ObjectKey;
use crate::hostname::Hostname;
use crate::labels::Labels;
use crate::protocol::Protocol;

/// Service of the mesh. Its endpoints are separate values, since they change far more often.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "settings of Kubernetes, independent of each other"
)]
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
    /// True if the requests of a client are to reach one endpoint (`sessionAffinity: ClientIP`).
    pub client_affinity: bool,
    /// True if sessions survive the end of readiness: label `istio.io/persistent-session` or
    /// `istio.io/persistent-session-header`. Endpoints drain then.
    pub persistent_sessions: bool,
    /// Labels of the pods behind the service; empty if it selects none.
    pub selector: Labels,
}

impl Service {
    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.clone(), self.name.clone())
    }

    /// True if the service selects a workload of its namespace with `labels`.
    pub fn selects(&self, labels: &Labels) -> bool {
        !self.selector.is_empty() && self.selector.select(labels)
    }

    /// The port with a number. Of two, one of UDP and one of TCP, it is the one of TCP.
    pub fn port(&self, number: u16) -> Option<&ServicePort> {
        let ports = self.ports.iter().filter(|port| port.number == number);
        ports.min_by_key(|port| port.protocol == Protocol::Udp)
    }
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
    /// Port of the pods.
    pub target: TargetPort,
}

/// Port of the pods behind a service port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TargetPort {
    /// The same number on all pods.
    Number(u16),
    /// A container's port by name, whose number differs between pods.
    Name(Arc<str>),
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

impl ExportTo {
    /// True if workloads of a namespace may use the service.
    pub fn includes(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespaces(namespaces) => namespaces.iter().any(|name| **name == *namespace),
        }
    }
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
