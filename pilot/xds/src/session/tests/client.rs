//! Model of Envoy as a client, in both variants.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message;

use crate::messages::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Status,
};
use crate::service::Variant;
use crate::type_urls::{CLUSTER, ENDPOINT, LISTENER, ROUTE};

/// Types that the client subscribes to, in Envoy's order.
pub(super) const TYPES: [&str; 4] = [CLUSTER, ENDPOINT, LISTENER, ROUTE];

/// Envoy as far as the order of its configuration matters.
#[derive(Debug)]
pub(super) struct Client {
    variant: Variant,
    types: BTreeMap<&'static str, Held>,
    /// Clusters that had endpoints at least once: those that routes see.
    active: BTreeSet<String>,
    /// Clusters that routes refer to although the client rejected them or their endpoints. A
    /// rejection of others may add and remove them again.
    broken: BTreeSet<String>,
    /// Clusters that wait for endpoints since they were added or changed.
    warming: BTreeSet<String>,
    /// Names that may come again unchanged: endpoints of a new or changed cluster, and names of a new
    /// subscription, which the server answers although it has sent them for an earlier one.
    excused: BTreeSet<(&'static str, String)>,
    /// Versions that the client rejects.
    bad: BTreeSet<String>,
    /// Resources that the client has rejected in some version.
    rejected: BTreeSet<(&'static str, String)>,
    /// Resources and removals received on this stream.
    pub(super) received: Vec<(&'static str, String, String)>,
    pub(super) removed: Vec<(&'static str, String)>,
    /// Number of later subscriptions to a name that the client had subscribed to before.
    pub(super) subscriptions: BTreeMap<(&'static str, String), usize>,
    /// Names of all subscriptions.
    subscribed: BTreeSet<(&'static str, String)>,
    /// True if resources may come twice: the client rejects some.
    pub(super) repeats: bool,
}

#[derive(Debug, Default)]
struct Held {
    resources: BTreeMap<String, Resource>,
    names: BTreeSet<String>,
    requested: bool,
    version: String,
    nonce: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Resource {
    version: String,
    references: Vec<(String, String)>,
}

impl Client {
    pub(super) fn new(variant: Variant, bad: BTreeSet<String>) -> Self {
        Self {
            variant,
            types: TYPES.into_iter().map(|type_url| (type_url, Held::default())).collect(),
            active: BTreeSet::new(),
            broken: BTreeSet::new(),
            warming: BTreeSet::new(),
            excused: BTreeSet::new(),
            repeats: !bad.is_empty(),
            bad,
            rejected: BTreeSet::new(),
            received: Vec::new(),
            removed: Vec::new(),
            subscriptions: BTreeMap::new(),
            subscribed: BTreeSet::new(),
        }
    }

    /// Opens a stream, with the types in an order, and returns the first requests.
    pub(super) fn connect(&mut self, order: [usize; 4]) -> Vec<Bytes> {
        self.received.clear();
        self.removed.clear();
        // Envoy takes the endpoints that it has for a cluster whose own ones do not come.
        for endpoints in self.types[ENDPOINT].resources.keys().cloned().collect::<Vec<_>>() {
            self.warm(&endpoints);
        }
        for held in self.types.values_mut() {
            held.requested = false;
            held.nonce.clear();
        }
        let types = order.into_iter().map(|index| TYPES[index]);
        let wanted = |client: &Self, type_url: &str| {
            matches!(type_url, CLUSTER | LISTENER) || !client.types[type_url].names.is_empty()
        };
        let types: Vec<_> = types.filter(|type_url| wanted(self, type_url)).collect();
        types.into_iter().map(|type_url| self.subscribe(type_url, vec![], vec![])).collect()
    }

    fn subscribe(
        &mut self,
        type_url: &'static str,
        subscribe: Vec<String>,
        unsubscribe: Vec<String>,
    ) -> Bytes {
        let held = self.types.get_mut(type_url).unwrap();
        let first = !std::mem::replace(&mut held.requested, true);
        let subscribe = if first { held.names.iter().cloned().collect() } else { subscribe };
        let mut initial = BTreeMap::new();
        if first {
            let versions = held.resources.iter();
            initial.extend(versions.map(|(name, found)| (name.clone(), found.version.clone())));
        }
        let encoded = match self.variant {
            Variant::Delta => DeltaDiscoveryRequest {
                type_url: type_url.to_owned(),
                resource_names_subscribe: subscribe,
                resource_names_unsubscribe: if first { vec![] } else { unsubscribe },
                initial_resource_versions: initial,
                ..Default::default()
            }
            .encode_to_vec(),
            Variant::StateOfTheWorld => self.whole(type_url, None),
        };
        encoded.into()
    }

    fn whole(&self, type_url: &str, error: Option<Status>) -> Vec<u8> {
        let held = &self.types[type_url];
        DiscoveryRequest {
            type_url: type_url.to_owned(),
            resource_names: held.names.iter().cloned().collect(),
            version_info: held.version.clone(),
            response_nonce: held.nonce.clone(),
            error_detail: error,
            ..Default::default()
        }
        .encode_to_vec()
    }

    /// Applies a response, checks the invariants, and returns the requests that follow.
    pub(super) fn receive(&mut self, frame: Bytes) -> Vec<Bytes> {
        let (type_url, nonce, version, resources, mut removed) = self.decode(frame);
        let type_url = TYPES.into_iter().find(|known| *known == type_url).unwrap();
        let held = &self.types[type_url];
        let is_whole =
            self.variant == Variant::StateOfTheWorld && matches!(type_url, CLUSTER | LISTENER);
        if is_whole {
            let kept: BTreeSet<_> = resources.iter().map(|(name, _)| name).collect();
            removed = held.resources.keys().filter(|name| !kept.contains(name)).cloned().collect();
        }
        let mut error = None;
        for (name, resource) in resources {
            let known = self.types[type_url].resources.get(&name);
            let is_equal = known.is_some_and(|known| known.version == resource.version);
            if !is_whole || !is_equal {
                self.received.push((type_url, name.clone(), resource.version.clone()));
            }
            if self.bad.contains(&resource.version) {
                error = Some(Status { code: 13, message: format!("{name} is invalid") });
                self.rejected.insert((type_url, name));
                continue;
            }
            if is_equal && !is_whole {
                let excused = self.excused.remove(&(type_url, name.clone()));
                assert!(excused || self.repeats, "{type_url} {name} came twice unchanged");
            }
            self.apply(type_url, name, resource, is_equal);
        }
        for name in removed {
            self.types.get_mut(type_url).unwrap().resources.remove(&name);
            self.removed.push((type_url, name.clone()));
            if type_url == CLUSTER {
                self.active.remove(&name);
                self.warming.remove(&name);
            }
            if type_url == ENDPOINT {
                self.warm(&name);
            }
        }
        let held = self.types.get_mut(type_url).unwrap();
        held.nonce = nonce;
        if error.is_none() {
            held.version = version;
        }
        self.check();
        let mut requests = vec![self.reply(type_url, error)];
        match type_url {
            CLUSTER => requests.extend(self.follow(CLUSTER, ENDPOINT)),
            LISTENER => requests.extend(self.follow(LISTENER, ROUTE)),
            _ => {}
        }
        requests
    }

    fn apply(&mut self, type_url: &'static str, name: String, new: Resource, is_equal: bool) {
        if type_url == CLUSTER && !is_equal {
            self.excused.extend(new.references.iter().map(|(_, name)| (ENDPOINT, name.clone())));
            self.warming.insert(name.clone());
        }
        if type_url == ENDPOINT {
            self.warm(&name);
        }
        let held = self.types.get_mut(type_url).unwrap();
        if matches!(type_url, CLUSTER | LISTENER) || held.names.contains(&name) {
            held.resources.insert(name, new);
        }
    }

    fn warm(&mut self, endpoints: &str) {
        for (name, cluster) in &self.types[CLUSTER].resources {
            if cluster.references.iter().any(|(_, needed)| needed == endpoints) {
                self.warming.remove(name);
                self.active.insert(name.clone());
            }
        }
    }

    fn reply(&self, type_url: &str, error: Option<Status>) -> Bytes {
        match self.variant {
            Variant::Delta => DeltaDiscoveryRequest {
                type_url: type_url.to_owned(),
                response_nonce: self.types[type_url].nonce.clone(),
                error_detail: error,
                ..Default::default()
            }
            .encode_to_vec(),
            Variant::StateOfTheWorld => self.whole(type_url, error),
        }
        .into()
    }

    /// Subscribes to what the resources of a type refer to.
    fn follow(&mut self, from: &str, to: &'static str) -> Option<Bytes> {
        let resources = self.types[from].resources.values();
        let needed = resources.flat_map(|resource| &resource.references);
        let needed = needed.filter(|(type_url, _)| type_url == to).map(|(_, name)| name.clone());
        let needed: BTreeSet<_> = needed.collect();
        let held = self.types.get_mut(to).unwrap();
        let added: Vec<_> = needed.difference(&held.names).cloned().collect();
        let dropped: Vec<_> = held.names.difference(&needed).cloned().collect();
        if added.is_empty() && dropped.is_empty() {
            return None;
        }
        for name in &added {
            let place = (to, name.clone());
            if !self.subscribed.insert(place.clone()) {
                *self.subscriptions.entry(place).or_default() += 1;
            }
        }
        held.resources.retain(|name, _| needed.contains(name));
        held.names = needed;
        self.excused.extend(added.iter().map(|name| (to, name.clone())));
        Some(self.subscribe(to, added, dropped))
    }

    /// Checks that no listener or route refers to a cluster that is missing or was never ready.
    fn check(&mut self) {
        let types = [LISTENER, ROUTE].map(|type_url| &self.types[type_url].resources);
        let references = types.into_iter().flatten().flat_map(|(name, resource)| {
            let clusters = resource.references.iter().filter(|(kind, _)| kind == CLUSTER);
            clusters.map(move |(_, cluster)| (name, cluster))
        });
        let missing = references.filter(|(_, cluster)| {
            !self.active.contains(*cluster) && !self.broken.contains(*cluster)
        });
        let missing: Vec<_> = missing.collect();
        for (name, cluster) in &missing {
            assert!(self.is_rejected(cluster), "{name} needs {cluster}");
        }
        let broken: Vec<_> = missing.into_iter().map(|(_, cluster)| cluster.clone()).collect();
        self.broken.extend(broken);
    }

    /// True if the client has rejected a cluster or its endpoints.
    fn is_rejected(&self, cluster: &str) -> bool {
        let found = self.types[CLUSTER].resources.get(cluster);
        let endpoints = found.into_iter().flat_map(|found| &found.references);
        let endpoints = endpoints.map(|(_, name)| (ENDPOINT, name.clone()));
        let mut needed = endpoints.chain([(CLUSTER, cluster.to_owned())]);
        needed.any(|resource| self.rejected.contains(&resource))
    }

    /// Versions by name.
    pub(super) fn versions(&self, type_url: &str) -> BTreeMap<String, String> {
        let resources = self.types[type_url].resources.iter();
        resources.map(|(name, found)| (name.clone(), found.version.clone())).collect()
    }

    pub(super) fn names(&self, type_url: &str) -> &BTreeSet<String> {
        &self.types[type_url].names
    }

    pub(super) fn is_warming(&self) -> bool {
        !self.warming.is_empty()
    }

    fn decode(
        &self,
        frame: Bytes,
    ) -> (String, String, String, Vec<(String, Resource)>, Vec<String>) {
        let parse = |body: &[u8]| {
            let text = std::str::from_utf8(body).unwrap();
            let mut lines = text.lines();
            let name = lines.next().unwrap().to_owned();
            let version = lines.next().unwrap().to_owned();
            let references = lines.map(|line| line.split_once(' ').unwrap());
            let references = references.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
            (name, Resource { version, references: references.collect() })
        };
        match self.variant {
            Variant::Delta => {
                let message = DeltaDiscoveryResponse::decode(frame).unwrap();
                let resources = message.resources.iter().map(|resource| {
                    let (name, parsed) = parse(&resource.resource.as_ref().unwrap().value);
                    assert_eq!((&name, &parsed.version), (&resource.name, &resource.version));
                    (name, parsed)
                });
                let resources = resources.collect();
                let removed = message.removed_resources;
                (message.type_url, message.nonce, String::new(), resources, removed)
            }
            Variant::StateOfTheWorld => {
                let message = DiscoveryResponse::decode(frame).unwrap();
                let resources = message.resources.iter().map(|any| parse(&any.value)).collect();
                (message.type_url, message.nonce, message.version_info, resources, vec![])
            }
        }
    }
}
