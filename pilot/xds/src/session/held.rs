//! Names that a client subscribes to or has, as differences from the published state.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::name::Name;
use super::resources::{EncodedResource, OfType, Resources};
use super::version::Version;
use crate::type_urls::CLUSTER;

/// Names of one type that a client subscribes to or has.
///
/// A client that has most of the published state costs memory only for the names that differ:
/// thousands of proxies with thousands of names each have the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// Names that differ from what `rest` says. `None` for a name that is published, and that the
    /// client neither has nor asks for.
    listed: BTreeMap<Name, Option<Entry>>,
    /// State of all other published names. `None` if the client knows nothing of them.
    rest: Option<Rest>,
    /// True if `repeated` is kept: state of the world repeats what the client has in each response
    /// of a type whose absent resources are deleted.
    repeats: bool,
    /// Accepted resources of the listed names.
    repeated: BTreeMap<Name, Arc<EncodedResource>>,
}

/// State of published names that a client has in their published version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// True if the client subscribes to each of them by its name.
    pub(super) explicit: bool,
    /// True unless they are clusters whose endpoints the client may lack.
    pub(super) complete: bool,
}

impl Rest {
    pub(super) fn entry(self, published: &EncodedResource) -> Option<Entry> {
        let Self { explicit, complete } = self;
        let accepted = Some(published.version);
        (!published.on_demand).then_some(Entry {
            accepted,
            complete,
            uncertain: false,
            told: true,
            explicit,
        })
    }
}

/// Name that a client subscribes to or has.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a name")]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Entry {
    /// Version that the client has accepted; `None` if it knows that the resource does not exist,
    /// or knows nothing yet.
    pub(super) accepted: Option<Version>,
    /// True once the client can use the resource. A cluster needs its endpoints for that.
    pub(super) complete: bool,
    /// True if the client may have another version than the accepted one, or none: Envoy applies
    /// the removals and the valid resources of a response that it rejects.
    pub(super) uncertain: bool,
    /// True once the client has accepted an answer; of endpoints, since their cluster was sent last.
    pub(super) told: bool,
    /// True if the client subscribes to the name, apart from a wildcard.
    pub(super) explicit: bool,
}

impl Entry {
    /// Entry of a client that has had the version in an earlier stream.
    pub(super) fn resumed(mut self, type_url: &str, version: Option<Version>) -> Self {
        if let Some(version) = version {
            self.accept(type_url, version);
            self.told = true;
        }
        self
    }

    /// Notes that the client has a version.
    pub(super) fn accept(&mut self, type_url: &str, version: Version) {
        (self.accepted, self.uncertain) = (Some(version), false);
        self.complete |= type_url != CLUSTER;
    }
}

impl Held {
    pub(super) fn new(repeats: bool) -> Self {
        Self { repeats, ..Self::default() }
    }

    /// State of a client of delta xDS that has the published state, but for some names.
    pub(super) fn differing_from(rest: Rest, listed: BTreeMap<Name, Option<Entry>>) -> Self {
        Self { listed, rest: Some(rest), ..Self::default() }
    }

    pub(super) fn get<R: Resources>(&self, of: OfType<'_, R>, name: &Name) -> Option<Entry> {
        match self.listed.get(name) {
            Some(entry) => *entry,
            None => self.unlisted(of, name),
        }
    }

    pub(super) fn set<R: Resources>(
        &mut self,
        of: OfType<'_, R>,
        name: Name,
        entry: Option<Entry>,
    ) {
        let repeated = self.repeated(of, &name).cloned();
        self.place(of, name, entry, repeated);
    }

    /// Notes that the client subscribes to a name. Returns true if it has not before.
    pub(super) fn subscribe<R: Resources>(&mut self, of: OfType<'_, R>, name: &Name) -> bool {
        if self.rest.is_none() && !self.repeats {
            let entry = self.listed.entry(name.clone()).or_default().get_or_insert_default();
            return !std::mem::replace(&mut entry.explicit, true);
        }
        let mut entry = self.get(of, name).unwrap_or_default();
        let is_new = !std::mem::replace(&mut entry.explicit, true);
        if is_new {
            self.set(of, name.clone(), Some(entry));
        }
        is_new
    }

    /// Notes that the client has a resource, and what follows from that.
    pub(super) fn accept<R: Resources>(
        &mut self,
        of: OfType<'_, R>,
        name: Name,
        resource: Arc<EncodedResource>,
        change: impl FnOnce(&mut Entry),
    ) {
        if self.rest.is_none() && !self.repeats {
            let entry = self.listed.entry(name).or_default().get_or_insert_default();
            entry.accept(of.type_url, resource.version);
            return change(entry);
        }
        let mut entry = self.get(of, &name).unwrap_or_default();
        entry.accept(of.type_url, resource.version);
        change(&mut entry);
        let repeated = self.repeats.then_some(resource);
        self.place(of, name, Some(entry), repeated);
    }

    fn place<R: Resources>(
        &mut self,
        of: OfType<'_, R>,
        name: Name,
        entry: Option<Entry>,
        repeated: Option<Arc<EncodedResource>>,
    ) {
        if entry == self.unlisted(of, &name) {
            self.listed.remove(&name);
            self.repeated.remove(&name);
            return;
        }
        if let Some(repeated) = repeated.filter(|_| entry.is_some()) {
            self.repeated.insert(name.clone(), repeated);
        }
        self.listed.insert(name, entry);
    }

    /// Notes that the client does not have a resource.
    pub(super) fn remove<R: Resources>(
        &mut self,
        of: OfType<'_, R>,
        name: &Name,
        entry: Option<Entry>,
    ) {
        self.place(of, name.clone(), entry, None);
        self.repeated.remove(name);
    }

    /// State of a name that is not listed.
    fn unlisted<R: Resources>(&self, of: OfType<'_, R>, name: &Name) -> Option<Entry> {
        let rest = self.rest?;
        of.find(name).and_then(|found| rest.entry(found))
    }

    /// True if the client has the published version of a name and can use it. The name is
    /// published: resources refer to resources of the same state.
    pub(super) fn is_settled(&self, name: &Name) -> bool {
        self.rest.is_some_and(|rest| rest.complete) && !self.listed.contains_key(name)
    }

    /// True if the client has all that is published.
    pub(super) fn has_all(&self) -> bool {
        self.rest.is_some() && self.listed.is_empty()
    }

    /// Changes an entry that exists.
    pub(super) fn update<R: Resources>(
        &mut self,
        of: OfType<'_, R>,
        name: &Name,
        change: impl FnOnce(&mut Entry),
    ) {
        let Some(before) = self.get(of, name) else { return };
        let mut entry = before;
        change(&mut entry);
        if entry != before {
            self.set(of, name.clone(), Some(entry));
        }
    }

    /// Lists all names, in no order.
    pub(super) fn names<R: Resources>(&self, of: OfType<'_, R>) -> Vec<Name> {
        let listed = self.listed.iter().filter(|(_, entry)| entry.is_some());
        let mut names: Vec<_> = listed.map(|(name, _)| name.clone()).collect();
        if self.rest.is_some() {
            let published = of.names().into_iter();
            names.extend(published.filter(|name| !self.listed.contains_key(name)));
        }
        names
    }

    /// Lists the entries that differ from the published state. Before the client has had all of it,
    /// these are all entries.
    pub(super) fn differing(&self) -> impl Iterator<Item = (&Name, &Entry)> {
        self.listed.iter().filter_map(|(name, entry)| Some((name, entry.as_ref()?)))
    }

    /// Forgets all names except those that the client subscribes to by their names.
    pub(super) fn keep_explicit<R: Resources>(&mut self, of: OfType<'_, R>) {
        let mut kept = Self::new(self.repeats);
        for name in self.names(of) {
            let Some(entry) = self.get(of, &name).filter(|entry| entry.explicit) else { continue };
            if let Some(repeated) = self.repeated(of, &name) {
                kept.repeated.insert(name.clone(), repeated.clone());
            }
            kept.listed.insert(name, Some(entry));
        }
        *self = kept;
    }

    /// Takes over a name when another state is published.
    pub(super) fn move_to<R: Resources>(
        &mut self,
        older: OfType<'_, R>,
        newer: OfType<'_, R>,
        name: &Name,
    ) {
        let repeated = self.repeated(older, name).cloned();
        self.place(newer, name.clone(), self.get(older, name), repeated);
    }

    /// Lists only what differs from the published state from now on, if the client has most of it.
    pub(super) fn settle<R: Resources>(&mut self, of: OfType<'_, R>, explicit: bool) {
        if self.rest.is_some() || self.listed.is_empty() || self.listed.len() * 2 < of.count() {
            return;
        }
        let rest = Rest { explicit, complete: true };
        self.rest = Some(rest);
        let (mut published, mut differing) = (0, BTreeMap::new());
        for (name, entry) in &self.listed {
            let found = of.find(name).and_then(|found| rest.entry(found));
            published += usize::from(found.is_some());
            if *entry != found {
                differing.insert(name.clone(), *entry);
            } else if self.repeats {
                self.repeated.remove(name);
            }
        }
        if published < of.count() {
            let missing = of.names().into_iter().filter(|name| !self.listed.contains_key(name));
            differing.extend(missing.map(|name| (name, None)));
        }
        self.listed = differing;
    }

    /// Notes that the client can use the clusters that it has in their published version: it has
    /// all endpoints.
    pub(super) fn complete<R: Resources>(&mut self, of: OfType<'_, R>) {
        if let Some(rest) = &mut self.rest {
            rest.complete = true;
        }
        for (name, entry) in &mut self.listed {
            let Some(entry) = entry.as_mut().filter(|entry| !entry.complete) else { continue };
            let published = of.find(name).map(|found| found.version);
            entry.complete = published.is_some() && entry.accepted == published && !entry.uncertain;
        }
    }

    /// Resource that state of the world repeats under a name.
    pub(super) fn repeated<'a, R: Resources>(
        &'a self,
        of: OfType<'a, R>,
        name: &Name,
    ) -> Option<&'a Arc<EncodedResource>> {
        match self.listed.get(name) {
            _ if !self.repeats => None,
            Some(_) => self.repeated.get(name),
            None => self.unlisted(of, name).and_then(|_| of.find(name)),
        }
    }
}
