//! Objects of one kind, as seen by a watch.

use std::collections::BTreeMap;

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};

/// Namespace of an object (empty if it has none) and its name.
pub(crate) type Key = (String, String);

/// Data kept of each object.
#[derive(Debug)]
pub(crate) struct Objects<V> {
    known: BTreeMap<Key, V>,
    /// Objects of the current list. Until the list ends, `known` counts.
    listing: BTreeMap<Key, V>,
    /// True if a list has ended.
    is_listed: bool,
}

impl<V> Default for Objects<V> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), listing: BTreeMap::new(), is_listed: false }
    }
}

/// Effect of a watch event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StoreUpdate {
    /// A list is in progress.
    Part,
    /// All objects are known.
    All {
        /// True if the kept data has changed.
        changed: bool,
    },
}

impl<V: PartialEq> Objects<V> {
    /// Applies an event. An object for which `keep` returns `None` is not kept.
    pub(crate) fn apply<K: Resource>(
        &mut self,
        event: Event<K>,
        keep: impl Fn(K) -> Option<V>,
    ) -> StoreUpdate {
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
                self.is_listed = true;
                return StoreUpdate::All { changed };
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
                return StoreUpdate::All { changed };
            }
            Event::Delete(object) => {
                return StoreUpdate::All { changed: self.known.remove(&key(&object)).is_some() };
            }
        }
        StoreUpdate::Part
    }

    /// Removes all objects. Returns true if there were any.
    pub(crate) fn clear(&mut self) -> bool {
        let changed = !self.known.is_empty();
        self.known.clear();
        changed
    }

    /// True if a list has ended.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Returns the known objects.
    pub(crate) fn known(&self) -> &BTreeMap<Key, V> {
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

    /// Applies events, and returns the known objects after each of them.
    fn story(events: Vec<Event<ConfigMap>>) -> Vec<(StoreUpdate, String)> {
        let keep = |map: ConfigMap| map.data?.remove("key").filter(|value| !value.is_empty());
        let mut objects = Objects::default();
        let mut updates = Vec::new();
        for event in events {
            let one = objects.apply(event, keep);
            updates.push((one, objects.known().values().cloned().collect()));
        }
        updates
    }

    #[test]
    fn list_is_applied_when_complete() {
        let all = |changed, known: &str| (StoreUpdate::All { changed }, known.to_owned());
        let part = |known: &str| (StoreUpdate::Part, known.to_owned());
        let updates = story(vec![
            Event::Init,
            Event::InitApply(map("one", "1")),
            Event::InitDone,
            Event::Apply(map("two", "2")),
            Event::Apply(map("two", "2")),
            Event::Apply(map("none", "")),
            // The watch was interrupted, and the first object was deleted meanwhile.
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
        assert_eq!(updates, expected);
    }
}
