//! Names and addresses that a workload may look up.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::endpoint::Endpoint;
use crate::service::{RegistryKind, Resolution, Service};
use crate::snapshot::Snapshot;

/// Addresses by fully qualified name. Names without addresses are left to the cluster's DNS, among
/// them aliases.
pub type NameTable = BTreeMap<Arc<str>, NameEntry>;

/// Addresses of a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NameEntry {
    /// Addresses: of a headless service, or of one of its pods, sorted; else the service's own.
    pub addresses: Vec<IpAddr>,
    /// Registry that the service comes from.
    pub registry: RegistryKind,
    /// Name within the namespace.
    pub short_name: Arc<str>,
    /// Namespace of the service.
    pub namespace: Arc<str>,
}

/// Table of the services that a namespace may use.
pub fn name_table(snapshot: &Snapshot, namespace: &str) -> NameTable {
    let mut table = NameTable::new();
    for service in snapshot.services().filter(|it| it.export_to.includes(namespace)) {
        match service.resolution {
            Resolution::ClientSide => {
                let name = Arc::from(service.hostname.as_str());
                add(&mut table, name, service, service.name.clone(), &service.addresses);
            }
            Resolution::OriginalDestination => add_headless(&mut table, service, snapshot),
            Resolution::Alias(_) => {}
        }
    }
    table
}

/// Adds a headless service: all its endpoints, and each named pod.
fn add_headless(table: &mut NameTable, service: &Service, snapshot: &Snapshot) {
    let ports = service.ports.iter().map(|port| port.number);
    let sets = ports.filter_map(|port| snapshot.endpoints(&service.hostname, port));
    let endpoints = sets.flat_map(|set| &set.endpoints);
    let is_listed = |endpoint: &&Endpoint| endpoint.health.is_listed(service.publish_not_ready);
    // A set, since an endpoint has an address for each port.
    let endpoints = endpoints.filter(is_listed);
    let addresses: BTreeSet<_> = endpoints.map(|it| (it.address, &it.hostname)).collect();
    for (address, pod) in addresses {
        let address = [address];
        let name = Arc::from(service.hostname.as_str());
        add(table, name, service, service.name.clone(), &address);
        if let Some(pod) = pod {
            let name = format!("{pod}.{}", service.hostname).into();
            let short_name = format!("{pod}.{}", service.name).into();
            add(table, name, service, short_name, &address);
        }
    }
}

fn add(
    table: &mut NameTable,
    name: Arc<str>,
    service: &Service,
    short_name: Arc<str>,
    addresses: &[IpAddr],
) {
    if addresses.is_empty() {
        return;
    }
    let entry = table.entry(name).or_insert_with(|| NameEntry {
        addresses: Vec::new(),
        registry: service.registry,
        short_name,
        namespace: service.namespace.clone(),
    });
    for address in addresses {
        // Sorted or unique: one that is there is the last one.
        if entry.addresses.last() != Some(address) {
            entry.addresses.push(*address);
        }
    }
}
