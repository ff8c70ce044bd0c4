//! Objects of the index, and which of them refer to each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use super::Marks;
use crate::event::{ObjectKey, Update};
use crate::intern::Interner;
use crate::labels::Labels;
use crate::locality::Locality;
use crate::namespace::Namespace;
use crate::node::Node;
use crate::pod::Pod;
use crate::service::Service;
use crate::slice::Slice;
use crate::workload::Workload;

/// The objects of all kinds.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    services: HashMap<ObjectKey, Arc<Service>>,
    slices: HashMap<ObjectKey, Slice>,
    /// Names of slices by their service.
    slices_of: BTreeSet<(ObjectKey, Arc<str>)>,
    /// Slices by the addresses of their endpoints.
    slices_at: BTreeSet<(IpAddr, ObjectKey)>,
    pods: HashMap<ObjectKey, StoredPod>,
    /// Running pods by the addresses that they may own.
    pods_at: BTreeSet<(IpAddr, ObjectKey)>,
    nodes: HashMap<Arc<str>, Locality>,
    namespaces: BTreeMap<Arc<str>, Labels>,
    interner: Interner,
    /// Kinds of which all objects were listed.
    listed: BTreeSet<&'static str>,
}

/// Pod whose workload has the locality that follows from its node.
#[derive(Debug, PartialEq)]
struct StoredPod {
    workload: Arc<Workload>,
    own_locality: Option<Box<Locality>>,
    created: i64,
    is_finished: bool,
}

/// Kind of objects.
pub(crate) trait Stored: Sized {
    const KIND: &'static str;
    fn key(&self) -> ObjectKey;
    fn keys(objects: &Objects) -> Vec<ObjectKey>;
    /// True if the objects have an equal one.
    fn is_in(&self, objects: &Objects) -> bool;
    fn put(self, objects: &mut Objects, marks: &mut Marks);
    fn remove(key: &ObjectKey, objects: &mut Objects, marks: &mut Marks);
}

impl Objects {
    pub(super) fn update<T: Stored>(&mut self, update: Update<T>, marks: &mut Marks) {
        match update {
            Update::Apply(object) => object.put(self, marks),
            Update::Delete(key) => T::remove(&key, self, marks),
            Update::Replace(listed) => {
                self.listed.insert(T::KIND);
                let keys: BTreeSet<ObjectKey> = listed.iter().map(Stored::key).collect();
                for gone in T::keys(self).iter().filter(|key| !keys.contains(key)) {
                    T::remove(gone, self, marks);
                }
                for object in listed {
                    object.put(self, marks);
                }
            }
        }
    }

    pub(super) fn is_listed(&self) -> bool {
        [Service::KIND, Slice::KIND, Pod::KIND, Node::KIND, Namespace::KIND]
            .iter()
            .all(|kind| self.listed.contains(kind))
    }

    pub(super) fn service(&self, key: &ObjectKey) -> Option<&Arc<Service>> {
        self.services.get(key)
    }

    pub(super) fn slices_of(&self, service: &ObjectKey) -> impl Iterator<Item = &Slice> {
        let first = (service.clone(), Arc::from(""));
        let names = self.slices_of.range(first..).take_while(move |(of, _)| of == service);
        names.filter_map(|(of, name)| {
            self.slices.get(&ObjectKey::new(of.namespace.clone(), name.clone()))
        })
    }

    pub(super) fn services_at(&self, address: IpAddr) -> impl Iterator<Item = ObjectKey> {
        let slices = at(&self.slices_at, address).filter_map(|key| self.slices.get(key));
        slices.map(Slice::service_key)
    }

    pub(super) fn workload(&self, key: &ObjectKey) -> Option<Arc<Workload>> {
        let pod = self.pods.get(key).filter(|pod| !pod.is_finished)?;
        Some(Arc::clone(&pod.workload))
    }

    /// Pod that owns an address: the youngest one.
    pub(super) fn owner(&self, address: IpAddr) -> Option<&ObjectKey> {
        let age = |key: &&ObjectKey| self.pods.get(*key).map(|pod| pod.created);
        at(&self.pods_at, address).max_by_key(|key| (age(key), *key))
    }

    /// Locality that the workload's pod has regardless of its node.
    pub(super) fn own_locality(&self, workload: &Workload) -> Option<&Locality> {
        let key = ObjectKey::new(workload.namespace.clone(), workload.name.clone());
        self.pods.get(&key)?.own_locality.as_deref()
    }

    pub(super) fn locality_of_node(&self, name: &str) -> Option<&Locality> {
        self.nodes.get(name)
    }

    pub(super) fn namespace(&self, name: &str) -> Option<&Labels> {
        self.namespaces.get(name)
    }

    /// Marks what depends on the marked nodes. Nodes change seldom, so there is no map for it.
    pub(super) fn mark_users_of_nodes(&mut self, marks: &mut Marks) {
        if marks.nodes.is_empty() {
            return;
        }
        for (key, pod) in &mut self.pods {
            if marks.nodes.contains(&pod.workload.node) {
                pod.place(&self.nodes);
                marks.pods.insert(key.clone());
                marks.addresses.extend(&pod.workload.addresses);
            }
        }
        for slice in self.slices.values() {
            if slice.endpoints.iter().any(|endpoint| marks.nodes.contains(&endpoint.node)) {
                marks.services.insert(slice.service_key());
            }
        }
    }
}

impl StoredPod {
    fn new(pod: Pod, nodes: &HashMap<Arc<str>, Locality>) -> Self {
        let Pod { workload, own_locality, created, is_finished } = pod;
        let own_locality = own_locality.map(Box::new);
        let mut pod = Self { workload: Arc::new(workload), own_locality, created, is_finished };
        pod.place(nodes);
        pod
    }

    fn place(&mut self, nodes: &HashMap<Arc<str>, Locality>) {
        let of_node = || nodes.get(&self.workload.node).cloned().unwrap_or_default();
        let locality = self.own_locality.as_deref().cloned().unwrap_or_else(of_node);
        if self.workload.locality != locality {
            Arc::make_mut(&mut self.workload).locality = locality;
        }
    }

    fn may_own_addresses(&self) -> bool {
        !self.is_finished && !self.workload.host_network
    }
}

impl Stored for Service {
    const KIND: &'static str = "Service";

    fn key(&self) -> ObjectKey {
        Service::key(self)
    }

    fn keys(objects: &Objects) -> Vec<ObjectKey> {
        objects.services.keys().cloned().collect()
    }

    fn is_in(&self, objects: &Objects) -> bool {
        objects.services.get(&Service::key(self)).is_some_and(|known| **known == *self)
    }

    fn put(mut self, objects: &mut Objects, marks: &mut Marks) {
        let interner = &mut objects.interner;
        interner.text(&mut self.name);
        interner.text(&mut self.namespace);
        interner.labels(&mut self.selector);
        for port in &mut self.ports {
            interner.text(&mut port.name);
        }
        let key = Service::key(&self);
        if let Some(before) = objects.services.insert(key.clone(), Arc::new(self)) {
            marks.hostnames.insert(before.hostname.clone());
        }
        marks.services.insert(key);
    }

    fn remove(key: &ObjectKey, objects: &mut Objects, marks: &mut Marks) {
        if let Some(before) = objects.services.remove(key) {
            marks.hostnames.insert(before.hostname.clone());
        }
    }
}

impl Stored for Slice {
    const KIND: &'static str = "EndpointSlice";

    fn key(&self) -> ObjectKey {
        Slice::key(self)
    }

    fn keys(objects: &Objects) -> Vec<ObjectKey> {
        objects.slices.keys().cloned().collect()
    }

    fn is_in(&self, objects: &Objects) -> bool {
        objects.slices.get(&Slice::key(self)) == Some(self)
    }

    fn put(mut self, objects: &mut Objects, marks: &mut Marks) {
        let key = Slice::key(&self);
        if self.is_in(objects) {
            return;
        }
        Self::remove(&key, objects, marks);
        let interner = &mut objects.interner;
        interner.text(&mut self.namespace);
        interner.text(&mut self.service);
        for port in &mut self.ports {
            interner.text(&mut port.name);
        }
        for endpoint in &mut self.endpoints {
            interner.text(&mut endpoint.node);
            interner.text(&mut endpoint.zone);
            endpoint.pod.iter_mut().for_each(|pod| interner.text(pod));
            endpoint.hostname.iter_mut().for_each(|hostname| interner.text(hostname));
            objects.slices_at.insert((endpoint.address, key.clone()));
        }
        objects.slices_of.insert((self.service_key(), self.name.clone()));
        marks.services.insert(self.service_key());
        objects.slices.insert(key, self);
    }

    fn remove(key: &ObjectKey, objects: &mut Objects, marks: &mut Marks) {
        let Some(before) = objects.slices.remove(key) else { return };
        for endpoint in &before.endpoints {
            objects.slices_at.remove(&(endpoint.address, key.clone()));
        }
        objects.slices_of.remove(&(before.service_key(), before.name.clone()));
        marks.services.insert(before.service_key());
    }
}

impl Stored for Pod {
    const KIND: &'static str = "Pod";

    fn key(&self) -> ObjectKey {
        Pod::key(self)
    }

    fn keys(objects: &Objects) -> Vec<ObjectKey> {
        objects.pods.keys().cloned().collect()
    }

    fn is_in(&self, objects: &Objects) -> bool {
        let pod = StoredPod::new(self.clone(), &objects.nodes);
        objects.pods.get(&Pod::key(self)) == Some(&pod)
    }

    fn put(mut self, objects: &mut Objects, marks: &mut Marks) {
        let key = Pod::key(&self);
        let workload = &mut self.workload;
        let interner = &mut objects.interner;
        interner.text(&mut workload.namespace);
        interner.text(&mut workload.name);
        interner.text(&mut workload.owner);
        interner.text(&mut workload.service_account);
        interner.text(&mut workload.node);
        interner.labels(&mut workload.labels);
        interner.locality(&mut workload.locality);
        workload.hostname.iter_mut().for_each(|hostname| interner.text(hostname));
        workload.subdomain.iter_mut().for_each(|subdomain| interner.text(subdomain));
        workload.addresses.shrink_to_fit();
        let pod = StoredPod::new(self, &objects.nodes);
        if objects.pods.get(&key) == Some(&pod) {
            return;
        }
        Self::remove(&key, objects, marks);
        marks.pods.insert(key.clone());
        marks.addresses.extend(&pod.workload.addresses);
        if pod.may_own_addresses() {
            let addresses = pod.workload.addresses.iter();
            objects.pods_at.extend(addresses.map(|address| (*address, key.clone())));
        }
        objects.pods.insert(key, pod);
    }

    fn remove(key: &ObjectKey, objects: &mut Objects, marks: &mut Marks) {
        let Some(before) = objects.pods.remove(key) else { return };
        marks.pods.insert(key.clone());
        for address in &before.workload.addresses {
            objects.pods_at.remove(&(*address, key.clone()));
            marks.addresses.insert(*address);
        }
    }
}

impl Stored for Node {
    const KIND: &'static str = "Node";

    fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.name.clone())
    }

    fn keys(objects: &Objects) -> Vec<ObjectKey> {
        objects.nodes.keys().map(|name| ObjectKey::new("", name.clone())).collect()
    }

    fn is_in(&self, objects: &Objects) -> bool {
        objects.nodes.get(&self.name) == Some(&self.locality)
    }

    fn put(mut self, objects: &mut Objects, marks: &mut Marks) {
        objects.interner.locality(&mut self.locality);
        if !self.is_in(objects) {
            marks.nodes.insert(self.name.clone());
            objects.nodes.insert(self.name, self.locality);
        }
    }

    fn remove(key: &ObjectKey, objects: &mut Objects, marks: &mut Marks) {
        if objects.nodes.remove(&key.name).is_some() {
            marks.nodes.insert(key.name.clone());
        }
    }
}

impl Stored for Namespace {
    const KIND: &'static str = "Namespace";

    fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.name.clone())
    }

    fn keys(objects: &Objects) -> Vec<ObjectKey> {
        objects.namespaces.keys().map(|name| ObjectKey::new("", name.clone())).collect()
    }

    fn is_in(&self, objects: &Objects) -> bool {
        objects.namespaces.get(&self.name) == Some(&self.labels)
    }

    fn put(self, objects: &mut Objects, marks: &mut Marks) {
        marks.namespaces.insert(self.name.clone());
        objects.namespaces.insert(self.name, self.labels);
    }

    fn remove(key: &ObjectKey, objects: &mut Objects, marks: &mut Marks) {
        objects.namespaces.remove(&key.name);
        marks.namespaces.insert(key.name.clone());
    }
}

/// Objects at an address.
fn at(places: &BTreeSet<(IpAddr, ObjectKey)>, address: IpAddr) -> impl Iterator<Item = &ObjectKey> {
    let first = (address, ObjectKey::new("", ""));
    places.range(first..).take_while(move |(at, _)| *at == address).map(|(_, key)| key)
}
