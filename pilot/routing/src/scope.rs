//! Services that a proxy may use.

use std::collections::BTreeSet;
use std::sync::Arc;

use pilot_registry::hostname::Hostname;
use pilot_registry::service::{Resolution, Service};
use pilot_registry::snapshot::Snapshot;

/// Services visible to the proxies of a namespace, in the order of their hostnames.
#[derive(Clone, Debug)]
pub struct Scope {
    snapshot: Snapshot,
    namespace: Arc<str>,
}

/// Target of an alias (`ExternalName`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AliasTarget<'a> {
    /// Another service of the scope.
    Service(&'a Arc<Service>),
    /// One pod of a headless service of the scope.
    Pod(&'a Arc<Service>),
    /// A host that the mesh does not know.
    External(Hostname),
    /// The aliases lead to each other.
    Cycle,
}

impl Scope {
    /// Selects the services exported to a namespace.
    pub fn new(snapshot: &Snapshot, namespace: impl Into<Arc<str>>) -> Self {
        Self { snapshot: snapshot.clone(), namespace: namespace.into() }
    }

    /// The services.
    pub fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.snapshot.services().filter(|service| self.includes(service))
    }

    /// Service of a host.
    pub fn service(&self, hostname: &Hostname) -> Option<&Arc<Service>> {
        self.snapshot.service(hostname).filter(|service| self.includes(service))
    }

    /// Headless service of a pod's name, such as `db-0.db.shop.svc.cluster.local`.
    fn service_of_pod(&self, hostname: &Hostname) -> Option<&Arc<Service>> {
        let (_, parent) = hostname.as_str().split_once('.')?;
        let service = self.service(&Hostname::parse(parent).ok()?)?;
        (service.resolution == Resolution::OriginalDestination).then_some(service)
    }

    fn includes(&self, service: &Service) -> bool {
        service.export_to.includes(&self.namespace)
    }

    /// Follows aliases to their end.
    pub fn alias_target(&self, first: &Hostname) -> AliasTarget<'_> {
        let mut seen = BTreeSet::new();
        let mut hostname = first.clone();
        while seen.insert(hostname.clone()) {
            match self.service(&hostname) {
                None => {
                    let of_pod = self.service_of_pod(&hostname).map(AliasTarget::Pod);
                    return of_pod.unwrap_or(AliasTarget::External(hostname));
                }
                Some(service) => match &service.resolution {
                    Resolution::Alias(target) => hostname = target.clone(),
                    _ => return AliasTarget::Service(service),
                },
            }
        }
        AliasTarget::Cycle
    }
}
