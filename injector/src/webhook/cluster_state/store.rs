//! The objects of one kind, as a watch has shown them so far.

use std::collections::BTreeMap;

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};

/// An object's namespace, empty where it has none, and its name.
pub(super) type Key = (String, String);

/// What is kept of each object.
#[derive(Debug)]
pub(super) struct Objects<V> {
    known: BTreeMap<Key, V>,
    /// What the list that is going on has shown; until it ends, what was known before counts.
    listing: BTreeMap<Key, V>,
}

impl<V> Default for Objects<V> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), listing: BTreeMap::new() }
    }
}

/// What an event means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Told {
    /// A list is going on.
    Part,
    /// All is known; whether it is something else than before.
    All {
        /// Whether what is known has changed.
        changed: bool,
    },
}

impl<V: PartialEq> Objects<V> {
    /// Takes an event; of an object for which `keep` gives nothing, nothing is kept.
    pub(super) fn apply<K: Resource>(
        &mut self,
        event: Event<K>,
        keep: impl Fn(K) -> Option<V>,
    ) -> Told {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => {
                let key = key(&object);
                if let Some(kept) = keep(object) {
                    self.listing.insert(key, kept);
                }
            }
            Event::InitDone => {
                let changed = self.listing != self.known;
                self.known = std::mem::take(&mut self.listing);
                return Told::All { changed };
            }
            Event::Apply(object) => {
                let key = key(&object);
                let changed = match keep(object) {
                    Some(kept) if self.known.get(&key) == Some(&kept) => false,
                    Some(kept) => {
                        self.known.insert(key, kept);
                        true
                    }
                    None => self.known.remove(&key).is_some(),
                };
                return Told::All { changed };
            }
            Event::Delete(object) => {
                return Told::All { changed: self.known.remove(&key(&object)).is_some() };
            }
        }
        Told::Part
    }

    /// Forgets everything; whether there was something.
    pub(super) fn clear(&mut self) -> bool {
        let changed = !self.known.is_empty();
        self.known.clear();
        changed
    }

    /// All that is known.
    pub(super) fn known(&self) -> &BTreeMap<Key, V> {
        &self.known
    }
}

fn key(object: &impl Resource) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn map(name: &str, value: &str) -> ConfigMap {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop"}, "data": {"key": value},
        }))
        .unwrap()
    }

    /// Applies events and tells what is known after each of them.
    fn story(events: Vec<Event<ConfigMap>>) -> Vec<(Told, String)> {
        let keep = |map: ConfigMap| map.data?.remove("key").filter(|value| !value.is_empty());
        let mut objects = Objects::default();
        let mut told = Vec::new();
        for event in events {
            let one = objects.apply(event, keep);
            told.push((one, objects.known().values().cloned().collect()));
        }
        told
    }

    #[test]
    fn a_list_counts_once_it_has_ended() {
        let all = |changed, known: &str| (Told::All { changed }, known.to_owned());
        let part = |known: &str| (Told::Part, known.to_owned());
        let told = story(vec![
            Event::Init,
            Event::InitApply(map("one", "1")),
            Event::InitDone,
            Event::Apply(map("two", "2")),
            Event::Apply(map("two", "2")),
            Event::Apply(map("none", "")),
            // The watch was interrupted, and the first object is gone since.
            Event::Init,
            Event::InitApply(map("two", "2")),
            Event::InitDone,
            Event::Apply(map("two", "")),
            Event::Delete(map("two", "")),
        ]);
        let expected = [
            part(""),
            part(""),
            all(true, "1"),
            all(true, "12"),
            all(false, "12"),
            all(false, "12"),
            part("12"),
            part("12"),
            all(true, "2"),
            all(true, ""),
            all(false, ""),
        ];
        assert_eq!(told, expected);
    }
}
