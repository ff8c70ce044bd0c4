//! Encoded resources, one for all proxies.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use pilot_routing::envoy::{Generator, generate, resource_version};
use pilot_xds::session::{EncodedResource, Name, Version};

/// Encoded resources in use. Equal resources of several proxies are encoded once. The name is part of the
/// key, since inputs need not name their resource.
#[derive(Debug, Default)]
pub struct EncodedResources {
    known: HashMap<(&'static str, Version, Name), Weak<EncodedResource>>,
    /// Number of resources at which unused ones are dropped.
    limit: usize,
}

impl EncodedResources {
    /// Returns the resource of these inputs, and encodes it if no proxy has it.
    pub fn get<G: Generator>(&mut self, name: &str, inputs: &G::Inputs) -> Arc<EncodedResource> {
        let version = resource_version::<G>(inputs);
        let name = Name::from(name);
        let key = (G::TYPE_URL, version, Name::clone(&name));
        if let Some(entry) = self.known.get(&key).and_then(Weak::upgrade) {
            return entry;
        }
        let resource = generate::<G>(inputs);
        let (body, references) = (resource.message.value, resource.references);
        let entry = EncodedResource::new(G::TYPE_URL, name, version, body, references);
        let entry = Arc::new(entry);
        self.known.insert(key, Arc::downgrade(&entry));
        if self.known.len() > self.limit {
            self.known.retain(|_, entry| entry.strong_count() > 0);
            self.limit = (2 * self.known.len()).max(SMALLEST_LIMIT);
        }
        entry
    }
}

const SMALLEST_LIMIT: usize = 1024;
