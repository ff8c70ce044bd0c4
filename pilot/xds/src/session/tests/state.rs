//! Published states of tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::session::{Changes, EncodedResource, Name, NameKey, Reference, Resources, Version};
use crate::type_urls::{CLUSTER, ENDPOINT, LISTENER, ROUTE};

/// A published state. The body of a resource is its name, its version and its references.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    items: BTreeMap<(String, Name), Arc<EncodedResource>>,
    /// True if the state names what has changed.
    pub(super) names_changes: bool,
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
        let lines = [name.to_owned(), version.to_string()].into_iter();
        let needed = references.iter().map(|needed| format!("{} {}", needed.type_url, needed.name));
        let body = lines.chain(needed).collect::<Vec<_>>().join("\n").into();
        let name = Name::from(name);
        let key = (type_url.to_owned(), name.clone());
        let item = EncodedResource::new(type_url, name, version, body, references);
        self.items.insert(key, Arc::new(item));
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
        Arc::make_mut(self.items.get_mut(&key).unwrap()).on_demand = true;
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

    fn count(&self, type_url: &str) -> usize {
        self.names(type_url).len()
    }

    fn find(&self, type_url: &str, name: &dyn NameKey) -> Option<&Arc<EncodedResource>> {
        self.items.get(&(type_url.to_owned(), name.as_name().into()))
    }

    fn changes_since(&self, older: &Self) -> Changes {
        if !self.names_changes {
            return Changes::All;
        }
        let keys = self.items.keys().chain(older.items.keys());
        let changed = keys.filter(|key| self.items.get(*key) != older.items.get(*key));
        Changes::Names(changed.map(|(kind, name)| (kind.as_str().into(), name.clone())).collect())
    }
}
