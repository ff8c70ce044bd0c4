//! Endpoint sets of a service, joined from its slices.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::objects::Objects;
use crate::endpoint::{Endpoint, EndpointSet, Health};
use crate::locality::Locality;
use crate::service::{Resolution, Service};
use crate::slice::{Condition, SliceEndpoint};
use crate::snapshot::Snapshot;
use crate::workload::Workload;

/// Endpoint sets of a service by the number of its ports, in the order of the numbers.
pub(super) fn endpoint_sets(
    service: &Service,
    objects: &Objects,
    snapshot: &Snapshot,
) -> Vec<(u16, EndpointSet)> {
    let numbers: BTreeSet<u16> = service.ports.iter().map(|port| port.number).collect();
    let sets = numbers.into_iter().filter_map(|number| {
        let name = &service.port(number)?.name;
        Some((number, EndpointSet::new(endpoints(service, name, objects, snapshot))))
    });
    sets.collect()
}

fn endpoints(
    service: &Service,
    port_name: &str,
    objects: &Objects,
    snapshot: &Snapshot,
) -> Vec<Endpoint> {
    if let Resolution::Alias(_) = service.resolution {
        return Vec::new();
    }
    let mut endpoints = Vec::new();
    for slice in objects.slices_of(&service.key()) {
        for port in slice.ports.iter().filter(|port| *port.name == *port_name) {
            for part in &slice.endpoints {
                let Some(health) = health(part.condition, service) else { continue };
                let workload = workload(&service.namespace, part, snapshot);
                let is_known = part.pod.is_none() || workload.is_some();
                endpoints.push(Endpoint {
                    address: part.address,
                    port: port.number,
                    health: if is_known { health } else { Health::Waiting },
                    locality: locality(part, workload, objects),
                    node: node(part, workload),
                    workload: workload.cloned(),
                    hostname: part.hostname.clone(),
                });
            }
        }
    }
    // An address that moves between slices is in both for a moment: its best state counts.
    endpoints.sort_unstable_by(|left, right| rank(left).cmp(&rank(right)));
    endpoints.dedup_by_key(|endpoint| (endpoint.address, endpoint.port));
    endpoints.shrink_to_fit();
    endpoints
}

/// Order of endpoints, in which the best one of an address and port is the first.
fn rank(endpoint: &Endpoint) -> impl Ord {
    let Endpoint { address, port, health, locality, node, workload, hostname } = endpoint;
    let workload = workload.as_ref().map(|it| &it.name);
    (address, port, health, workload.is_none(), workload, node, locality, hostname)
}

/// `None` for an endpoint that takes no more requests.
fn health(condition: Condition, service: &Service) -> Option<Health> {
    match condition {
        Condition::Ready => Some(Health::Healthy),
        Condition::NotReady => Some(Health::Unhealthy),
        Condition::ServingTerminating if service.persistent_sessions => Some(Health::Draining),
        Condition::ServingTerminating | Condition::Terminating => {
            let is_chosen_by_clients = service.resolution == Resolution::OriginalDestination;
            is_chosen_by_clients.then_some(Health::Terminating)
        }
    }
}

/// Workload of an endpoint: the named pod if the address is still its own, or the owner of the
/// address if no pod is named.
fn workload<'a>(
    namespace: &str,
    part: &SliceEndpoint,
    snapshot: &'a Snapshot,
) -> Option<&'a Arc<Workload>> {
    match &part.pod {
        Some(pod) => {
            let workload = snapshot.workload(namespace, pod)?;
            workload.addresses.contains(&part.address).then_some(workload)
        }
        None => snapshot.workload_at(part.address),
    }
}

fn node(part: &SliceEndpoint, workload: Option<&Arc<Workload>>) -> Arc<str> {
    let of_workload = workload.filter(|_| part.node.is_empty()).map(|it| it.node.clone());
    of_workload.unwrap_or_else(|| part.node.clone())
}

/// Place of an endpoint: the pod's own one, else the zone of the slice within the region of the
/// node.
fn locality(part: &SliceEndpoint, workload: Option<&Arc<Workload>>, objects: &Objects) -> Locality {
    if let Some(own) = workload.and_then(|workload| objects.own_locality(workload)) {
        return own.clone();
    }
    let of_node = objects.locality_of_node(&node(part, workload)).cloned().unwrap_or_default();
    let zone = if part.zone.is_empty() { of_node.zone } else { part.zone.clone() };
    Locality { zone, ..of_node }
}
