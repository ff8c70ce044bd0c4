//! State that the configuration of one proxy is generated from.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::{Arc, OnceLock};

use mesh::istio_kinds::AUTHORIZATION_POLICY;
use pilot_registry::hostname::Hostname;
use pilot_registry::names::{NameTable, name_table};
use pilot_registry::service::{Resolution, Service};
use pilot_registry::snapshot::Snapshot;
use pilot_registry::workload::InboundTarget;

use super::listeners::outbound::OutboundPlan;
use crate::authorization_policy::AuthorizationPolicies;
use crate::peer_authentication::{PeerAuthentications, WorkloadModes};
use crate::scope::{AliasTarget, Scope};
use crate::view::{MeshView, ProxyView};

/// The mesh as one proxy sees it.
#[derive(Debug)]
pub struct Context<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) mesh: &'a MeshView,
    pub(super) policies: &'a PeerAuthentications,
    pub(super) proxy: &'a ProxyView,
    pub(super) scope: Scope,
    pub(super) modes: WorkloadModes,
    pub(super) targets: Vec<InboundTarget>,
    /// Policy by which the workload takes no connection.
    closed_by: Option<Origin>,
    outbound: OnceLock<OutboundPlan>,
    aliases: OnceLock<BTreeMap<Hostname, Vec<Hostname>>>,
    names: OnceLock<Arc<NameTable>>,
}

/// Object that a resource was generated from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Kind of the object.
    pub kind: &'static str,
    /// Namespace and name, or name alone.
    pub name: Arc<str>,
}

impl<'a> Context<'a> {
    /// Reduces the mesh to the part that a proxy sees.
    pub fn new(
        snapshot: &'a Snapshot,
        mesh: &'a MeshView,
        policies: &'a PeerAuthentications,
        authorization: &AuthorizationPolicies,
        proxy: &'a ProxyView,
    ) -> Self {
        let by_address = || {
            let mut found = proxy.addresses.iter().filter_map(|ip| snapshot.workload_at(*ip));
            found.find(|workload| workload.namespace == proxy.namespace)
        };
        let workload = snapshot.workload(&proxy.namespace, &proxy.pod).or_else(by_address);
        let labels = workload.map_or(&proxy.labels, |workload| &workload.labels);
        let targets = workload.map(|workload| snapshot.inbound_targets(workload));
        let root_namespace = &mesh.root_namespace;
        let closing = authorization.closing(root_namespace, snapshot, &proxy.namespace, labels);
        Self {
            snapshot,
            mesh,
            policies,
            proxy,
            scope: Scope::new(snapshot, proxy.namespace.clone()),
            modes: policies.modes(&proxy.namespace, labels),
            targets: targets.unwrap_or_default(),
            closed_by: closing
                .filter(|_| proxy.captures())
                .map(|it| Origin::new(AUTHORIZATION_POLICY.kind, &it.namespace, &it.name)),
            outbound: OnceLock::new(),
            aliases: OnceLock::new(),
            names: OnceLock::new(),
        }
    }

    /// Outbound listeners of the proxy.
    pub fn outbound(&self) -> &OutboundPlan {
        self.outbound.get_or_init(|| OutboundPlan::new(self))
    }

    /// Aliases that lead to the service of a host, in the order of their names.
    pub(super) fn aliases(&self, hostname: &Hostname) -> &[Hostname] {
        let aliases = self.aliases.get_or_init(|| {
            let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for alias in self.scope.services() {
                if let Resolution::Alias(target) = &alias.resolution
                    && let AliasTarget::Service(target) = self.scope.alias_target(target)
                {
                    found.entry(target.hostname.clone()).or_default().push(alias.hostname.clone());
                }
            }
            found
        });
        aliases.get(hostname).map_or(&[], Vec::as_slice)
    }

    /// Names that the proxy's workload may look up, with addresses that it can reach.
    pub(super) fn names(&self) -> &Arc<NameTable> {
        self.names.get_or_init(|| {
            let families = self.proxy.families();
            let mut table = name_table(self.snapshot, &self.proxy.namespace);
            table.retain(|_, entry| {
                entry.addresses.retain(|address| families.has(*address));
                !entry.addresses.is_empty()
            });
            Arc::new(table)
        })
    }

    /// Ports of the proxy's workload to which services lead.
    pub fn targets(&self) -> &[InboundTarget] {
        &self.targets
    }

    /// Policy by which the workload takes no connection, since it is not enforced.
    pub fn closed_by(&self) -> Option<&Origin> {
        self.closed_by.as_ref()
    }

    /// Ports on which the application takes connections through the proxy, each with its oldest
    /// service.
    pub fn inbound_ports(&self) -> impl Iterator<Item = &InboundTarget> {
        let mut last = None;
        self.targets.iter().filter(move |target| {
            let is_udp = target.service_port.protocol.class()
                == pilot_registry::protocol::ProtocolClass::Udp;
            let is_new = !is_udp && last != Some(target.port);
            if is_new {
                last = Some(target.port);
            }
            is_new && !self.proxy.reserves(self.mesh, target.port)
        })
    }

    /// True if Envoy chooses an endpoint of the service. Clients of a headless service choose it,
    /// but the proxy knows their choice only if it captures connections.
    pub(super) fn is_balanced(&self, service: &Service) -> bool {
        match service.resolution {
            Resolution::ClientSide => true,
            Resolution::OriginalDestination => !self.proxy.captures(),
            Resolution::Alias(_) => false,
        }
    }

    pub(super) fn origin_of_workload(&self) -> Origin {
        Origin::new("Pod", &self.proxy.namespace, &self.proxy.pod)
    }

    pub(super) fn origins_of_modes(&self) -> impl Iterator<Item = Origin> {
        let decided = self.modes.decided_by.iter();
        decided.map(|name| Origin { kind: "PeerAuthentication", name: name.clone() })
    }
}

impl Origin {
    /// Object of a namespace.
    pub fn new(kind: &'static str, namespace: &str, name: &str) -> Self {
        Self { kind, name: format!("{namespace}/{name}").into() }
    }

    pub(super) fn service(service: &Service) -> Self {
        Self::new("Service", &service.namespace, &service.name)
    }

    pub(super) fn mesh() -> Self {
        Self { kind: "MeshConfig", name: "mesh".into() }
    }
}

impl Display for Origin {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind, self.name)
    }
}
