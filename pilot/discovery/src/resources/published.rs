//! Published state of one proxy.

use std::sync::Arc;

use pilot_xds::session::{Changes, EncodedResource, Name, NameKey, Resources};
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, NAME_TABLE, ROUTE};

use super::{Outbound, OwnResources, Table};

/// Published state of one proxy. Clones share the content.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// Resources that all proxies of the view have.
    pub outbound: Arc<Outbound>,
    /// Number of the view; tables of different views are not comparable.
    pub view: u64,
    /// Resources of the proxy's workload.
    pub own: Arc<OwnResources>,
}

impl Published {
    /// True if both are the same state.
    pub fn is_same(&self, other: &Self) -> bool {
        self.view == other.view
            && Arc::ptr_eq(&self.outbound, &other.outbound)
            && Arc::ptr_eq(&self.own, &other.own)
    }

    fn hides(&self, type_url: &str, name: &str) -> bool {
        type_url == LISTENER && self.own.hides_listener(name)
    }

    fn table(&self, type_url: &str) -> Option<&Table> {
        self.outbound.table(type_url)
    }

    fn own(&self, type_url: &str) -> &[Arc<EncodedResource>] {
        match type_url {
            CLUSTER => &self.own.clusters,
            LISTENER => &self.own.listeners,
            _ => &[],
        }
    }
}

impl Outbound {
    fn table(&self, type_url: &str) -> Option<&Table> {
        match type_url {
            CLUSTER => Some(&self.clusters),
            ENDPOINT => Some(&self.endpoints),
            LISTENER => Some(&self.listeners),
            ROUTE => Some(&self.routes),
            NAME_TABLE => Some(&self.names),
            _ => None,
        }
    }
}

impl Resources for Published {
    fn names(&self, type_url: &str) -> Vec<Name> {
        let own = self.own(type_url).iter().map(|entry| &entry.name);
        let shared = self.table(type_url).into_iter().flat_map(Table::names);
        let shared = shared.filter(|name| !self.hides(type_url, name));
        own.chain(shared).cloned().collect()
    }

    fn count(&self, type_url: &str) -> usize {
        self.own(type_url).len() + self.table(type_url).map_or(0, Table::len)
    }

    fn find(&self, type_url: &str, name: &dyn NameKey) -> Option<&Arc<EncodedResource>> {
        let key = name.as_name();
        let own = self.own(type_url).iter().find(|found| found.name.as_name() == key);
        let shared = || self.table(type_url)?.get(name);
        own.or_else(|| shared().filter(|_| !self.hides(type_url, key.text())))
    }

    fn changes_since(&self, older: &Self) -> Changes {
        self.names_since(older).map_or(Changes::All, |names| {
            let names = names.into_iter().map(|(type_url, name)| (type_url.into(), name));
            Changes::Names(names.collect())
        })
    }
}

impl Published {
    fn names_since(&self, older: &Self) -> Option<Vec<(&'static str, Name)>> {
        let mut found = Vec::new();
        if !Arc::ptr_eq(&self.outbound, &older.outbound) {
            if self.view != older.view {
                return None;
            }
            for type_url in TYPES {
                let (table, before) = (self.table(type_url)?, older.table(type_url)?);
                let changed = table.changes_since(before)?;
                found.extend(changed.map(|name| (type_url, name.clone())));
            }
        }
        if !Arc::ptr_eq(&self.own, &older.own) {
            for type_url in [CLUSTER, LISTENER] {
                let both = self.own(type_url).iter().chain(older.own(type_url));
                found.extend(both.map(|entry| (type_url, entry.name.clone())));
            }
        }
        Some(found)
    }
}

const TYPES: [&str; 5] = [CLUSTER, ENDPOINT, LISTENER, ROUTE, NAME_TABLE];
