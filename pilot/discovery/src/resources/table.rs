//! Resources of one type, with the names that changed lately.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use pilot_xds::session::{EncodedResource, Name, NameHasher, NameKey};
use rpds::HashTrieMapSync;

/// Resources of one type by name. Clones share the content.
#[derive(Clone, Debug)]
pub struct Table {
    entries: HashTrieMapSync<Name, Arc<EncodedResource>, NameHasher>,
    /// Number of changes so far.
    generation: u64,
    /// Names of the last changes, the latest at the end.
    recent: VecDeque<Name>,
}

impl Default for Table {
    fn default() -> Self {
        let entries = HashTrieMapSync::new_with_hasher_and_ptr_kind(NameHasher::default());
        Self { entries, generation: 0, recent: VecDeque::new() }
    }
}

impl Table {
    /// Finds a resource.
    pub fn get(&self, name: &dyn NameKey) -> Option<&Arc<EncodedResource>> {
        self.entries.get(name)
    }

    /// Names in no order that means something.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.entries.keys()
    }

    /// Number of resources.
    pub fn len(&self) -> usize {
        self.entries.size()
    }

    /// True if there is no resource.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of changes so far.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Puts a resource in its place, or removes the one of the name.
    pub fn set(&mut self, name: &Name, entry: Option<Arc<EncodedResource>>) {
        let before = self.entries.get(name);
        let name = match (before, &entry) {
            (None, None) => return,
            (Some(before), Some(entry)) if before.version == entry.version => return,
            (_, Some(entry)) => entry.name.clone(),
            (Some(before), None) => before.name.clone(),
        };
        match entry {
            Some(entry) => self.entries.insert_mut(name.clone(), entry),
            None => {
                self.entries.remove_mut(&name);
            }
        }
        self.generation += 1;
        self.recent.push_back(name);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Replaces all resources.
    pub fn replace(&mut self, entries: Vec<Arc<EncodedResource>>) {
        let kept: BTreeSet<&Name> = entries.iter().map(|entry| &entry.name).collect();
        let gone: Vec<_> = self.names().filter(|name| !kept.contains(name)).cloned().collect();
        for name in gone {
            self.set(&name, None);
        }
        for entry in entries {
            let name = entry.name.clone();
            self.set(&name, Some(entry));
        }
    }

    /// Names that changed since an older state of the same table; `None` if it is too old.
    pub fn changes_since(&self, older: &Self) -> Option<impl Iterator<Item = &Name>> {
        let count = usize::try_from(self.generation.checked_sub(older.generation)?).ok()?;
        let first = self.recent.len().checked_sub(count)?;
        Some(self.recent.range(first..))
    }
}

/// Names remembered. A proxy that is further behind compares all of its resources.
const RECENT: usize = 512;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use pilot_xds::session::Version;

    use super::*;

    fn entry(name: &str, content: u64) -> Arc<EncodedResource> {
        let version = Version::new(&content);
        Arc::new(EncodedResource::new("", name.into(), version, Bytes::new(), vec![]))
    }

    fn changes(newer: &Table, older: &Table) -> Option<Vec<String>> {
        Some(newer.changes_since(older)?.map(ToString::to_string).collect())
    }

    #[test]
    fn changes_are_the_names_that_differ() {
        let mut table = Table::default();
        table.replace(vec![entry("a", 1), entry("b", 1), entry("c", 1)]);
        let older = table.clone();
        table.replace(vec![entry("b", 2), entry("c", 1), entry("d", 1)]);
        assert_eq!(changes(&table, &older).unwrap(), ["a", "b", "d"]);
        assert_eq!(changes(&table, &table.clone()).unwrap(), [""; 0]);
        let names: BTreeSet<&str> = table.names().map(|name| &**name).collect();
        assert_eq!(names, ["b", "c", "d"].into());
    }

    #[test]
    fn state_that_is_too_old_has_no_list_of_changes() {
        let older = Table::default();
        let mut table = older.clone();
        for content in 0..=RECENT as u64 {
            table.set(&"a".into(), Some(entry("a", content)));
        }
        assert_eq!(changes(&table, &older), None);
    }
}
