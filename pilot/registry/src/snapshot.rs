//! Snapshot of the services model: an immutable value that generators query.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use rpds::{HashTrieMapSync, RedBlackTreeMapSync};

use crate::endpoint::{Endpoint, EndpointSet};
use crate::event::ObjectKey;
use crate::hash::content_hash;
use crate::hostname::Hostname;
use crate::labels::Labels;
use crate::service::Service;
use crate::workload::{InboundTarget, Workload};

/// State of the mesh at one moment. Clones share the content.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(crate) services: RedBlackTreeMapSync<Hostname, Arc<ServiceEntry>>,
    /// Services with a selector, by namespace.
    pub(crate) selectors: RedBlackTreeMapSync<(Arc<str>, Hostname), Arc<Service>>,
    pub(crate) workloads: RedBlackTreeMapSync<ObjectKey, Arc<Workload>>,
    pub(crate) addresses: HashTrieMapSync<IpAddr, Arc<Workload>>,
    pub(crate) namespaces: RedBlackTreeMapSync<Arc<str>, Labels>,
    pub(crate) generation: u64,
}

/// Equal content; the generation does not count.
impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.services == other.services
            && self.selectors == other.selectors
            && self.workloads == other.workloads
            && self.addresses == other.addresses
            && self.namespaces == other.namespaces
    }
}

impl Eq for Snapshot {}

/// Service with its endpoints.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServiceEntry {
    pub(crate) service: Arc<Service>,
    pub(crate) hash: u64,
    /// Endpoint sets by the number of the service port, in the order of the numbers.
    pub(crate) endpoint_sets: Vec<(u16, Arc<EndpointSet>)>,
}

impl ServiceEntry {
    pub(crate) fn new(service: Arc<Service>, sets: Vec<(u16, Arc<EndpointSet>)>) -> Self {
        Self { hash: content_hash(&service), service, endpoint_sets: sets }
    }

    pub(crate) fn endpoints(&self, service_port: u16) -> Option<&Arc<EndpointSet>> {
        let sets = &self.endpoint_sets;
        let place = sets.binary_search_by_key(&service_port, |(number, _)| *number).ok()?;
        Some(&sets[place].1)
    }
}

impl Snapshot {
    /// All services in the order of their hostnames.
    pub fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.values().map(|entry| &entry.service)
    }

    /// Service of a host.
    pub fn service(&self, hostname: &Hostname) -> Option<&Arc<Service>> {
        Some(&self.services.get(hostname)?.service)
    }

    /// Hash of a service without its endpoints, equal in all replicas.
    pub fn service_hash(&self, hostname: &Hostname) -> Option<u64> {
        Some(self.services.get(hostname)?.hash)
    }

    /// Endpoints of a service port: an empty set if there are none, `None` if the host or the port
    /// is unknown.
    pub fn endpoints(&self, hostname: &Hostname, service_port: u16) -> Option<&Arc<EndpointSet>> {
        self.services.get(hostname)?.endpoints(service_port)
    }

    /// Endpoints of a service port whose workloads have the labels of `selector`. An empty
    /// selector selects all, also endpoints without a workload.
    pub fn instances(
        &self,
        hostname: &Hostname,
        service_port: u16,
        selector: &Labels,
    ) -> Vec<&Endpoint> {
        let endpoints = self.endpoints(hostname, service_port).map(|set| set.endpoints.iter());
        let is_selected = |endpoint: &&Endpoint| {
            let workload = endpoint.workload.as_ref();
            selector.is_empty() || workload.is_some_and(|it| selector.select(&it.labels))
        };
        endpoints.into_iter().flatten().filter(is_selected).collect()
    }

    /// Namespaces and names of the service accounts behind a service port.
    pub fn service_accounts(
        &self,
        hostname: &Hostname,
        service_port: u16,
    ) -> BTreeSet<(Arc<str>, Arc<str>)> {
        let endpoints = self.endpoints(hostname, service_port).map(|set| set.endpoints.iter());
        let workloads = endpoints.into_iter().flatten().filter_map(|it| it.workload.as_deref());
        workloads.map(|it| (it.namespace.clone(), it.service_account.clone())).collect()
    }

    /// All workloads in the order of namespace and name.
    pub fn workloads(&self) -> impl Iterator<Item = &Arc<Workload>> {
        self.workloads.values()
    }

    /// Workloads of a namespace in the order of their names.
    pub fn workloads_of<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Workload>> {
        let first = self.workloads.range(ObjectKey::new(namespace, "")..);
        first.map(|(_, workload)| workload).take_while(|it| *it.namespace == *namespace)
    }

    /// Workload by namespace and name.
    pub fn workload(&self, namespace: &str, name: &str) -> Option<&Arc<Workload>> {
        self.workloads.get(&ObjectKey::new(namespace, name))
    }

    /// Workload that owns an address. Pods with the node's network own none.
    pub fn workload_at(&self, address: IpAddr) -> Option<&Arc<Workload>> {
        self.addresses.get(&address)
    }

    /// Ports of a workload to which services lead, in the order of port, then age of the service,
    /// then hostname, then service port.
    pub fn inbound_targets(&self, workload: &Workload) -> Vec<InboundTarget> {
        let namespace = &workload.namespace;
        let first = self.selectors.range((namespace.clone(), Hostname::first())..);
        let own = first.take_while(|((of, _), _)| of == namespace).map(|(_, service)| service);
        let mut targets: Vec<(i64, InboundTarget)> = Vec::new();
        for service in own.filter(|service| service.selects(&workload.labels)) {
            for service_port in &service.ports {
                let Some(port) = workload.target(service_port) else { continue };
                let service_port = service_port.clone();
                let hostname = service.hostname.clone();
                let target = InboundTarget { port, service: hostname, service_port };
                targets.push((service.created, target));
            }
        }
        targets.sort_by(|(left_age, left), (right_age, right)| {
            let left = (left.port, left_age, &left.service, left.service_port.number);
            left.cmp(&(right.port, right_age, &right.service, right.service_port.number))
        });
        targets.into_iter().map(|(_, target)| target).collect()
    }

    /// Labels of a namespace.
    pub fn namespace(&self, name: &str) -> Option<&Labels> {
        self.namespaces.get(name)
    }

    /// Number of the events before this snapshot that changed something. For diagnostics only.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}
