//! Encoded resources, one for all proxies.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use pilot_routing::envoy::{Generator, generate, resource_version};
use pilot_xds::session::{Name, Reference, Version};

/// Encoded resource.
#[derive(Debug)]
pub struct Entry {
    /// Name.
    pub name: Name,
    /// Hash of the inputs.
    pub version: Version,
    /// The encoded message.
    pub body: Bytes,
    /// Resources that this one needs.
    pub references: Vec<Reference>,
}

/// Entries in use. Equal resources of several proxies are encoded once. The name is part of the
/// key, since inputs need not name their resource.
#[derive(Debug, Default)]
pub struct Entries {
    known: HashMap<(&'static str, Version, Name), Weak<Entry>>,
    /// Number of entries at which unused ones are dropped.
    limit: usize,
}

impl Entries {
    /// Returns the resource of these inputs, and encodes it if no proxy has it.
    pub fn get<G: Generator>(&mut self, name: &str, inputs: &G::Inputs) -> Arc<Entry> {
        let version = resource_version::<G>(inputs);
        let name = Name::from(name);
        let key = (G::TYPE_URL, version, Name::clone(&name));
        if let Some(entry) = self.known.get(&key).and_then(Weak::upgrade) {
            return entry;
        }
        let resource = generate::<G>(inputs);
        let entry = Arc::new(Entry {
            name,
            version,
            body: resource.message.value,
            references: resource.references,
        });
        self.known.insert(key, Arc::downgrade(&entry));
        if self.known.len() > self.limit {
            self.known.retain(|_, entry| entry.strong_count() > 0);
            self.limit = (2 * self.known.len()).max(SMALLEST_LIMIT);
        }
        entry
    }
}

const SMALLEST_LIMIT: usize = 1024;
