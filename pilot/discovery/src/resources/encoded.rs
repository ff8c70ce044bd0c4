//! Encoded resources, one for all proxies.

use std::collections::HashMap;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Arc, Weak};
use std::thread::{self, Builder};

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
        let entry = self.find_or_encode::<G>(name, inputs);
        self.remember(G::TYPE_URL, &entry);
        self.drop_unused();
        entry
    }

    /// Returns the resources of these names, in their order, without those that have no inputs.
    /// New ones are encoded on all cores: the first proxy of a large mesh waits for them.
    pub fn get_all<G: Generator>(
        &mut self,
        names: &[&str],
        inputs: impl Fn(&str) -> Option<G::Inputs> + Sync,
    ) -> Vec<Arc<EncodedResource>> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let part = names.len().div_ceil(cores).max(SMALLEST_PART);
        let known: &Self = self;
        let encode = |names: &[&str]| -> Vec<_> {
            let inputs = names.iter().filter_map(|name| Some((name, inputs(name)?)));
            inputs.map(|(name, inputs)| known.find_or_encode::<G>(name, &inputs)).collect()
        };
        let entries: Vec<_> = thread::scope(|scope| {
            let (first, rest) = names.split_at(part.min(names.len()));
            // The parts of threads that cannot be started are encoded here.
            let encode = &encode;
            let start = |names| (names, Builder::new().spawn_scoped(scope, move || encode(names)));
            let rest: Vec<_> = rest.chunks(part).map(start).collect();
            let first = encode(first);
            let rest = rest.into_iter().map(|(names, thread)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(_) => encode(names),
            });
            [first].into_iter().chain(rest).flatten().collect()
        });
        for entry in &entries {
            self.remember(G::TYPE_URL, entry);
        }
        self.drop_unused();
        entries
    }

    fn find_or_encode<G: Generator>(&self, name: &str, inputs: &G::Inputs) -> Arc<EncodedResource> {
        let version = resource_version::<G>(inputs);
        let key = (G::TYPE_URL, version, Name::from(name));
        self.known.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let resource = generate::<G>(inputs, version);
            let (body, references) = (resource.message.value, resource.references);
            Arc::new(EncodedResource::new(G::TYPE_URL, key.2, version, body, references))
        })
    }

    fn remember(&mut self, type_url: &'static str, entry: &Arc<EncodedResource>) {
        let key = (type_url, entry.version, entry.name.clone());
        self.known.insert(key, Arc::downgrade(entry));
    }

    fn drop_unused(&mut self) {
        if self.known.len() > self.limit {
            self.known.retain(|_, entry| entry.strong_count() > 0);
            self.limit = (2 * self.known.len()).max(SMALLEST_LIMIT);
        }
    }
}

/// Names for which a thread is worth its start.
const SMALLEST_PART: usize = 500;
const SMALLEST_LIMIT: usize = 1024;
