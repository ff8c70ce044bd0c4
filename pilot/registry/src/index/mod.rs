//! Index of the objects of a platform, from which the snapshot is derived step by step.
//!
//! An event first changes the objects and marks the values that may depend on them. The marked
//! values are then derived anew and compared with the snapshot, so only differences are reported.

mod endpoints;
mod objects;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use self::endpoints::endpoint_sets;
use self::objects::Objects;
#[cfg(feature = "kubernetes")]
pub(crate) use self::objects::Stored;
use crate::changes::Changes;
use crate::event::{Event, ObjectKey};
use crate::hostname::Hostname;
use crate::service::Service;
use crate::snapshot::{ServiceEntry, Snapshot};

/// Objects of a platform, and the snapshot that follows from them.
#[derive(Debug, Default)]
pub struct Index {
    objects: Objects,
    snapshot: Snapshot,
}

/// Values to derive anew.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Hostnames of services that were removed or replaced.
    hostnames: BTreeSet<Hostname>,
    services: BTreeSet<ObjectKey>,
    pods: BTreeSet<ObjectKey>,
    addresses: BTreeSet<IpAddr>,
    nodes: BTreeSet<Arc<str>>,
    namespaces: BTreeSet<Arc<str>>,
}

impl Index {
    /// Index after some events, for callers that have all objects at hand.
    pub fn from_events(events: impl IntoIterator<Item = Event>) -> Self {
        let mut index = Self::default();
        for event in events {
            index.apply(event);
        }
        index
    }

    /// The current snapshot.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    /// True if the objects of each kind were listed once: the snapshot is not one of a start.
    pub fn is_listed(&self) -> bool {
        self.objects.is_listed()
    }

    /// Names of the objects of a kind.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn keys<T: Stored>(&self) -> BTreeSet<ObjectKey> {
        T::keys(&self.objects).into_iter().collect()
    }

    /// True if the index has an equal object.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn has<T: Stored>(&self, object: &T) -> bool {
        object.is_in(&self.objects)
    }

    /// Applies an event. Returns the differences between the snapshots before and after it.
    pub fn apply(&mut self, event: Event) -> Changes {
        let mut marks = Marks::default();
        match event {
            Event::Services(update) => self.objects.update(update, &mut marks),
            Event::Slices(update) => self.objects.update(update, &mut marks),
            Event::Pods(update) => self.objects.update(update, &mut marks),
            Event::Nodes(update) => self.objects.update(update, &mut marks),
            Event::Namespaces(update) => self.objects.update(update, &mut marks),
        }
        self.derive(marks)
    }

    /// Derives the marked values, in the order in which they depend on each other.
    fn derive(&mut self, mut marks: Marks) -> Changes {
        let mut changes = Changes::default();
        self.objects.mark_users_of_nodes(&mut marks);
        for key in marks.pods {
            self.derive_workload(key, &mut changes);
        }
        for address in marks.addresses {
            self.derive_owner(address);
            marks.services.extend(self.objects.services_at(address));
        }
        for hostname in &marks.hostnames {
            self.remove_service(hostname, &mut changes);
        }
        for key in marks.services {
            if let Some(service) = self.objects.service(&key).cloned() {
                self.derive_service(service, &mut changes);
            }
        }
        for name in marks.namespaces {
            self.derive_namespace(name, &mut changes);
        }
        if !changes.is_empty() {
            self.snapshot.generation += 1;
        }
        changes
    }

    fn derive_workload(&mut self, key: ObjectKey, changes: &mut Changes) {
        let workloads = &mut self.snapshot.workloads;
        match self.objects.workload(&key) {
            Some(workload) if workloads.get(&key) == Some(&workload) => return,
            Some(workload) => workloads.insert_mut(key.clone(), workload),
            None if !workloads.remove_mut(&key) => return,
            None => {}
        }
        changes.workloads.insert(key);
    }

    fn derive_owner(&mut self, address: IpAddr) {
        let owner = self.objects.owner(address).and_then(|key| self.snapshot.workloads.get(key));
        match owner {
            Some(owner) => self.snapshot.addresses.insert_mut(address, Arc::clone(owner)),
            None => {
                self.snapshot.addresses.remove_mut(&address);
            }
        }
    }

    /// Removes the service of a host, unless it is still an object.
    fn remove_service(&mut self, hostname: &Hostname, changes: &mut Changes) {
        let Some(entry) = self.snapshot.services.get(hostname) else { return };
        let object = self.objects.service(&entry.service.key());
        if object.is_some_and(|object| object.hostname == *hostname) {
            return;
        }
        let ports = entry.endpoint_sets.iter().map(|(port, _)| (hostname.clone(), *port));
        changes.endpoint_sets.extend(ports);
        changes.services.insert(hostname.clone());
        self.snapshot.selectors.remove_mut(&(entry.service.namespace.clone(), hostname.clone()));
        self.snapshot.services.remove_mut(hostname);
    }

    fn derive_service(&mut self, service: Arc<Service>, changes: &mut Changes) {
        let before = self.snapshot.services.get(&service.hostname).cloned();
        let before = before.as_deref();
        let mut sets = Vec::new();
        for (port, set) in endpoint_sets(&service, &self.objects, &self.snapshot) {
            let known = before.and_then(|entry| entry.endpoints(port));
            let unchanged = known.filter(|known| ***known == set).cloned();
            let set = unchanged.unwrap_or_else(|| {
                changes.endpoint_sets.insert((service.hostname.clone(), port));
                Arc::new(set)
            });
            sets.push((port, set));
        }
        let entry = ServiceEntry::new(service, sets);
        let hostname = &entry.service.hostname;
        let ports_before = before.map(|entry| entry.endpoint_sets.iter()).into_iter().flatten();
        let removed = ports_before.filter(|(port, _)| entry.endpoints(*port).is_none());
        changes.endpoint_sets.extend(removed.map(|(port, _)| (hostname.clone(), *port)));
        if before == Some(&entry) {
            return;
        }
        if before.is_none_or(|before| before.service != entry.service) {
            changes.services.insert(hostname.clone());
            self.select(&entry.service);
        }
        self.snapshot.services.insert_mut(hostname.clone(), Arc::new(entry));
    }

    /// Keeps the services with a selector by namespace.
    fn select(&mut self, service: &Arc<Service>) {
        let place = (service.namespace.clone(), service.hostname.clone());
        if service.selector.is_empty() {
            self.snapshot.selectors.remove_mut(&place);
        } else {
            self.snapshot.selectors.insert_mut(place, Arc::clone(service));
        }
    }

    fn derive_namespace(&mut self, name: Arc<str>, changes: &mut Changes) {
        let namespaces = &mut self.snapshot.namespaces;
        match self.objects.namespace(&name) {
            Some(labels) if namespaces.get(&name) == Some(labels) => return,
            Some(labels) => namespaces.insert_mut(name.clone(), labels.clone()),
            None if !namespaces.remove_mut(&name) => return,
            None => {}
        }
        changes.namespaces.insert(name);
    }
}
