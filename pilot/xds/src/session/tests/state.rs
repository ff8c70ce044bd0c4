//! Published states of tests.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::session::{Found, Name, Reference, Resources, Version};
use crate::type_urls::{CLUSTER, ENDPOINT, LISTENER, ROUTE};

/// A published state. The body of a resource is its name, its version and its references.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    items: BTreeMap<(String, Name), Item>,
}

#[derive(Clone, Debug, PartialEq)]
struct Item {
    version: Version,
    references: Vec<Reference>,
    on_demand: bool,
}

impl State {
    pub(super) fn with(
        mut self,
        type_url: &str,
        name: &str,
        content: u8,
        references: Vec<Reference>,
    ) -> Self {
        let version = Version::new(&(type_url, name, content, &references));
        let item = Item { version, references, on_demand: false };
        self.items.insert((type_url.to_owned(), name.into()), item);
        self
    }

    /// Adds a cluster and its endpoints of the same name.
    pub(super) fn cluster(self, name: &str, content: u8) -> Self {
        let references = vec![endpoint(name)];
        self.with(CLUSTER, name, content, references).with(ENDPOINT, name, 0, vec![])
    }

    pub(super) fn endpoints(self, name: &str, content: u8) -> Self {
        self.with(ENDPOINT, name, content, vec![])
    }

    pub(super) fn route(self, name: &str, content: u8, clusters: &[&str]) -> Self {
        self.with(ROUTE, name, content, clusters.iter().map(|name| cluster(name)).collect())
    }

    pub(super) fn listener(self, name: &str, content: u8, routes: &[&str]) -> Self {
        self.with(LISTENER, name, content, routes.iter().map(|name| route(name)).collect())
    }

    pub(super) fn on_demand(mut self, type_url: &str, name: &str) -> Self {
        let key = (type_url.to_owned(), name.into());
        self.items.get_mut(&key).unwrap().on_demand = true;
        self
    }

    pub(super) fn without(mut self, type_url: &str, name: &str) -> Self {
        self.items.remove(&(type_url.to_owned(), name.into())).unwrap();
        self
    }

    /// Versions by name.
    pub(super) fn versions(&self, type_url: &str) -> BTreeMap<String, String> {
        let items = self.items.iter().filter(|((found, _), _)| found == type_url);
        items.map(|((_, name), item)| (name.to_string(), item.version.to_string())).collect()
    }

    fn item(&self, type_url: &str, name: &str) -> Option<(&Name, &Item)> {
        let key = (type_url.to_owned(), name.into());
        self.items.get_key_value(&key).map(|((_, name), item)| (name, item))
    }
}

pub(super) fn cluster(name: &str) -> Reference {
    Reference { type_url: CLUSTER, name: name.into() }
}

pub(super) fn endpoint(name: &str) -> Reference {
    Reference { type_url: ENDPOINT, name: name.into() }
}

pub(super) fn route(name: &str) -> Reference {
    Reference { type_url: ROUTE, name: name.into() }
}

impl Resources for State {
    fn names(&self, type_url: &str) -> Vec<Name> {
        let items =
            self.items.iter().filter(|((found, _), item)| found == type_url && !item.on_demand);
        items.map(|((_, name), _)| name.clone()).collect()
    }

    fn find(&self, type_url: &str, name: &str) -> Option<Found> {
        let (name, item) = self.item(type_url, name)?;
        Some(Found { name: name.clone(), version: item.version, on_demand: item.on_demand })
    }

    fn body(&self, type_url: &str, name: &str) -> Bytes {
        let (name, item) = self.item(type_url, name).unwrap();
        let references = item.references.iter();
        let references = references.map(|needed| format!("{} {}", needed.type_url, needed.name));
        let lines = [name.to_string(), item.version.to_string()].into_iter().chain(references);
        lines.collect::<Vec<_>>().join("\n").into()
    }

    fn references(&self, type_url: &str, name: &str) -> Vec<Reference> {
        self.item(type_url, name).map(|(_, item)| item.references.clone()).unwrap_or_default()
    }
}
