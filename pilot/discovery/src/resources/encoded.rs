//! Encoded resources, one for all proxies.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Arc, Weak};
use std::thread;

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
        self.note(G::TYPE_URL, &entry);
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
            let rest = rest.chunks(part).map(|names| scope.spawn(|| encode(names)));
            let rest: Vec<_> = rest.collect();
            let joined = rest.into_iter().map(thread::ScopedJoinHandle::join);
            [Ok(encode(first))].into_iter().chain(joined).flat_map(resumed).collect()
        });
        for entry in &entries {
            self.note(G::TYPE_URL, entry);
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

    fn note(&mut self, type_url: &'static str, entry: &Arc<EncodedResource>) {
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

/// Returns the result of a thread, or continues its panic.
fn resumed<T>(result: thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Names for which a thread is worth its start.
const SMALLEST_PART: usize = 500;
const SMALLEST_LIMIT: usize = 1024;
