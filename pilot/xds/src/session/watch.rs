//! State of one resource type of a stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::held::{Entry, Held};
use super::name::{Name, NameKey, NameRef};
use super::request::Subscription;
use super::resources::{EncodedResource, OfType, Resources};
use super::version::Version;
use crate::messages::Status;
use crate::service::Variant;
use crate::type_urls::{ENDPOINT, EXTENSION_CONFIG, ROUTE, SECRET};

/// Subscription to a type, and what its client has.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    /// True if the client subscribes to all names.
    pub(super) wildcard: bool,
    /// True once a state-of-the-world client has named a resource. An empty list of names then
    /// means none, and not all.
    named: bool,
    /// True once the first request has its response.
    pub(super) answered: bool,
    /// Names that the client subscribes to or has.
    pub(super) held: Held,
    /// Names that may need to be sent.
    pub(super) dirty: BTreeMap<Name, Resend>,
    /// The response that waits for its ACK.
    pub(super) in_flight: Option<InFlight>,
    /// Resources of a rejected response, to be sent again one by one.
    pub(super) suspects: BTreeSet<Name>,
    /// Rejected versions. They are not sent again.
    pub(super) rejected: BTreeMap<Name, Rejection>,
    /// Number of NACKs.
    pub(super) nacks: u64,
    /// Number of names that the client subscribes to explicitly.
    pub(super) explicit: usize,
}

/// Cause of a name in the dirty set.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Resend {
    /// Send it if the version differs.
    IfChanged,
    /// Send it in any case.
    Always,
}

/// Response that waits for its ACK.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub(super) nonce: u32,
    /// True if the response was sent with exactly one resource: a NACK rejects that one.
    pub(super) is_single: bool,
    /// Content, without the names that the client has unsubscribed from meanwhile.
    pub(super) content: BTreeMap<Name, Sent>,
}

/// Resource of a response in flight.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// The resource; `None` for a removal.
    pub(super) resource: Option<Arc<EncodedResource>>,
    /// True for endpoints whose cluster was sent after them: the cluster needs them again.
    pub(super) outdated: bool,
}

/// Version that a client has rejected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rejection {
    /// The version.
    pub version: Version,
    /// The client's reason.
    pub reason: String,
}

impl Watch {
    /// Creates the state from the first request of a stream for the type.
    pub(super) fn new<R: Resources>(
        variant: Variant,
        of: OfType<'_, R>,
        subscription: &Subscription<'_>,
    ) -> Self {
        let repeats = variant == Variant::StateOfTheWorld && is_whole(of.type_url);
        let mut watch = Self { held: Held::new(repeats), ..Self::default() };
        match subscription {
            Subscription::Changes { subscribe, unsubscribe, initial } => {
                let is_wildcard = subscribe.iter().all(|name| name.text() == WILDCARD);
                watch.wildcard =
                    is_wildcard && (has_wildcard(of.type_url) || !subscribe.is_empty());
                if unsubscribe.is_empty() && watch.resume_most(of, subscribe, initial) {
                    return watch;
                }
                watch.change(of, &[], subscribe);
                watch.change(of, unsubscribe, &[]);
                for (name, version) in initial {
                    let name = of.shared_name(*name);
                    let known = watch.held.get(of, &name);
                    let known = known.or(watch.wildcard.then(Entry::default));
                    if let Some(entry) = known {
                        let entry = entry.resumed(of.type_url, Some(*version));
                        watch.held.set(of, name, Some(entry));
                    }
                }
                let all = watch.all(of).into_iter();
                watch.dirty = all.map(|name| (name, Resend::IfChanged)).collect();
            }
            Subscription::Whole { names, version } => {
                watch.replace(of, names);
                if !version.is_empty() {
                    watch.resume(of, Version::parse(version));
                }
            }
        }
        watch
    }

    /// Changes the subscription of a delta client.
    pub(super) fn change<R: Resources>(
        &mut self,
        of: OfType<'_, R>,
        unsubscribe: &[NameRef<'_>],
        subscribe: &[NameRef<'_>],
    ) {
        for &name in unsubscribe {
            if name.text() == WILDCARD {
                self.leave_wildcard(of);
            } else {
                self.drop_name(of, &of.shared_name(name));
            }
        }
        for &name in subscribe {
            if name.text() == WILDCARD {
                self.wildcard = true;
                for name in of.names() {
                    self.dirty.entry(name).or_insert(Resend::IfChanged);
                }
            } else {
                self.add_name(of, of.shared_name(name), Resend::Always);
            }
        }
    }

    /// Replaces the subscription of a state-of-the-world client.
    pub(super) fn replace<R: Resources>(&mut self, of: OfType<'_, R>, names: &[NameRef<'_>]) {
        let wildcard = names.iter().any(|name| name.text() == WILDCARD)
            || (names.is_empty() && !self.named && has_wildcard(of.type_url));
        self.named |= !names.is_empty();
        let kept: BTreeSet<NameRef<'_>> = names.iter().copied().collect();
        let is_explicit = |watch: &Self, name: &Name| {
            watch.held.get(of, name).is_some_and(|entry| entry.explicit)
        };
        let held = self.held.names(of).into_iter();
        let gone = held.filter(|name| !kept.contains(&name.as_name()) && is_explicit(self, name));
        let gone: Vec<_> = gone.collect();
        if wildcard && !self.wildcard {
            for name in of.names() {
                self.dirty.entry(name).or_insert(Resend::IfChanged);
            }
        }
        for name in gone {
            self.drop_name(of, &name);
        }
        if self.wildcard && !wildcard {
            self.leave_wildcard(of);
        }
        self.wildcard = wildcard;
        for name in kept.into_iter().filter(|name| name.text() != WILDCARD) {
            let name = of.shared_name(name);
            if !is_explicit(self, &name) {
                self.add_name(of, name, Resend::IfChanged);
            }
        }
    }

    fn add_name<R: Resources>(&mut self, of: OfType<'_, R>, name: Name, why: Resend) {
        if self.held.subscribe(of, &name) {
            self.explicit += 1;
        }
        self.mark(name, why);
    }

    fn drop_name<R: Resources>(&mut self, of: OfType<'_, R>, name: &Name) {
        let Some(mut entry) = self.held.get(of, name) else { return };
        if entry.explicit {
            self.explicit -= 1;
        }
        if !self.wildcard {
            self.held.set(of, name.clone(), None);
            self.dirty.remove(name);
            self.suspects.remove(name);
            self.rejected.remove(name);
            if let Some(sent) = &mut self.in_flight {
                sent.content.remove(name);
            }
        } else if entry.explicit {
            // The client cannot know whether the wildcard covers the name: it gets an answer.
            entry.explicit = false;
            self.held.set(of, name.clone(), Some(entry));
            self.mark(name.clone(), Resend::Always);
        }
    }

    /// Forgets all names except those that the client subscribes to explicitly.
    fn leave_wildcard<R: Resources>(&mut self, of: OfType<'_, R>) {
        self.wildcard = false;
        self.held.keep_explicit(of);
        let held = &self.held;
        let is_held = |name: &Name| held.get(of, name).is_some();
        self.dirty.retain(|name, _| is_held(name));
        self.suspects.retain(is_held);
        self.rejected.retain(|name, _| is_held(name));
        if let Some(sent) = &mut self.in_flight {
            sent.content.retain(|name, _| is_held(name));
        }
    }

    /// Adds a name to the dirty set.
    pub(super) fn mark(&mut self, name: Name, why: Resend) {
        let mark = self.dirty.entry(name).or_insert(why);
        *mark = why.max(*mark);
    }

    /// Takes names off the dirty set and the suspects.
    pub(super) fn unmark(&mut self, names: &[&Name]) {
        if let Some(last) = names.last()
            && self.dirty.keys().take(names.len()).eq(names.iter().copied())
        {
            // A part of a long answer.
            self.dirty = self.dirty.split_off(*last);
            self.dirty.pop_first();
        } else {
            for name in names {
                self.dirty.remove(*name);
            }
        }
        if !self.suspects.is_empty() {
            for name in names {
                self.suspects.remove(*name);
            }
        }
    }

    /// Lists all names that the client subscribes to or has.
    pub(super) fn all<R: Resources>(&self, of: OfType<'_, R>) -> Vec<Name> {
        let mut all = self.held.names(of);
        // A resource may vanish before the client acknowledges it.
        all.extend(self.in_flight.iter().flat_map(|sent| sent.content.keys().cloned()));
        if self.wildcard {
            all.extend(of.names());
        }
        all
    }

    /// Finds the resource that the client should have under a name.
    pub(super) fn wanted<'a, R: Resources>(
        &self,
        of: OfType<'a, R>,
        name: &Name,
    ) -> Option<&'a Arc<EncodedResource>> {
        self.wanted_with(of, name, self.held.get(of, name).unwrap_or_default())
    }

    /// Finds the resource of a name whose entry is known.
    pub(super) fn wanted_with<'a, R: Resources>(
        &self,
        of: OfType<'a, R>,
        name: &Name,
        entry: Entry,
    ) -> Option<&'a Arc<EncodedResource>> {
        let found = of.find(name)?;
        ((self.wildcard && !found.on_demand) || entry.explicit).then_some(found)
    }

    /// Takes the ACK of the response in flight.
    pub(super) fn acknowledge<R: Resources>(&mut self, of: OfType<'_, R>) {
        let Some(InFlight { content, .. }) = self.in_flight.take() else { return };
        for (name, Sent { resource, outdated }) in content {
            let version = resource.as_ref().map(|resource| resource.version);
            if self.rejected.get(&name).is_some_and(|rejected| Some(rejected.version) != version) {
                self.rejected.remove(&name);
            }
            if let Some(resource) = resource {
                self.held.accept(of, name, resource, |entry| entry.told |= !outdated);
                continue;
            }
            let Entry { told, explicit, .. } = self.held.get(of, &name).unwrap_or_default();
            let told = told || !outdated;
            let entry = Entry { told, explicit, ..Entry::default() };
            self.held.remove(of, &name, explicit.then_some(entry));
        }
    }

    /// Takes the NACK of the response in flight. Its error covers the whole response: of several
    /// resources each is sent again alone, once, to find the culprit.
    pub(super) fn reject<R: Resources>(&mut self, of: OfType<'_, R>, error: Status) {
        self.nacks += 1;
        let Some(sent) = &self.in_flight else { return };
        let resources = sent.content.iter();
        let resources = resources
            .filter_map(|(name, sent)| Some((name.clone(), sent.resource.as_ref()?.version)));
        let resources: Vec<_> = resources.collect();
        if resources.is_empty() {
            // A removal has no content that could change: sending it again would not end.
            return self.acknowledge(of);
        }
        if let ([(name, version)], true) = (&*resources, sent.is_single) {
            let rejection = Rejection { version: *version, reason: error.message };
            self.rejected.insert(name.clone(), rejection);
        } else {
            for (name, _) in resources {
                let mut entry = self.held.get(of, &name).unwrap_or_default();
                entry.uncertain = true;
                self.held.set(of, name.clone(), Some(entry));
                self.suspects.insert(name);
            }
        }
        let removals = self.in_flight.take().into_iter().flat_map(|sent| sent.content);
        for (name, _) in removals.filter(|(_, sent)| sent.resource.is_none()) {
            let mut entry = self.held.get(of, &name).unwrap_or_default();
            (entry.uncertain, entry.complete) = (true, false);
            self.held.set(of, name.clone(), Some(entry));
            self.mark(name, Resend::IfChanged);
        }
    }

    /// True if the client has exactly the published state.
    pub(super) fn is_settled<R: Resources>(&self, of: OfType<'_, R>) -> bool {
        self.answered
            && self.is_at_rest()
            && !self.held.differing().any(|(_, entry)| entry.uncertain)
            && !self.rejected.iter().any(|(name, rejected)| {
                of.find(name).is_some_and(|found| found.version == rejected.version)
            })
    }

    /// True if nothing is on its way to the client, and nothing waits to be sent.
    pub(super) fn is_at_rest(&self) -> bool {
        self.in_flight.is_none() && self.dirty.is_empty() && self.suspects.is_empty()
    }

    /// True if the current version of a resource was rejected.
    pub(super) fn is_rejected(&self, found: &EncodedResource) -> bool {
        self.rejected.get(&found.name).is_some_and(|rejected| rejected.version == found.version)
    }
}

/// True if state of the world deletes the resources that a response leaves out.
pub(super) fn is_whole(type_url: &str) -> bool {
    has_wildcard(type_url)
}

/// Version of a whole state, for clients that know no versions of single resources.
pub(super) fn state_version<'a>(resources: impl Iterator<Item = (&'a Name, Version)>) -> Version {
    Version::new(&resources.collect::<Vec<_>>())
}

/// True if a first request without names means all names.
fn has_wildcard(type_url: &str) -> bool {
    !matches!(type_url, ENDPOINT | ROUTE | SECRET | EXTENSION_CONFIG)
}

pub(super) const WILDCARD: &str = "*";
