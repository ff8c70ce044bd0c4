//! State of one resource type of a stream.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::request::Subscription;
use super::resources::{Found, Name, Resources};
use super::version::Version;
use crate::messages::Status;
use crate::type_urls::{CLUSTER, ENDPOINT, EXTENSION_CONFIG, LISTENER, ROUTE, SECRET};

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
    pub(super) entries: BTreeMap<Name, Entry>,
    /// Names that may need to be sent.
    pub(super) dirty: BTreeMap<Name, Resend>,
    /// The response that waits for its ACK.
    pub(super) in_flight: Option<InFlight>,
    /// Resources of a rejected response, to be sent again one by one.
    pub(super) suspects: BTreeSet<Name>,
    /// Rejected versions. They are not sent again.
    pub(super) rejected: BTreeMap<Name, Rejection>,
    /// Accepted bodies. State of the world repeats them in each response of a type whose absent
    /// resources are deleted.
    pub(super) bodies: BTreeMap<Name, Bytes>,
    /// Number of NACKs.
    pub(super) nacks: u64,
    /// Number of names that the client subscribes to explicitly.
    pub(super) explicit: usize,
}

/// Name that a client subscribes to or has.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a name")]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    /// Version that the client has accepted; `None` if it knows that the resource does not exist,
    /// or knows nothing yet.
    pub(super) accepted: Option<Version>,
    /// Nonce of the response that the client accepted last. Zero for resources of an earlier
    /// stream.
    pub(super) nonce: u32,
    /// True for a cluster that a listener or route of the client uses.
    pub(super) used: bool,
    /// True if the client may have another version than the accepted one, or none: Envoy applies
    /// the removals and the valid resources of a response that it rejects.
    pub(super) uncertain: bool,
    /// True once the client has accepted an answer.
    pub(super) told: bool,
    /// True if the client subscribes to the name, apart from a wildcard.
    pub(super) explicit: bool,
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
    pub(super) content: BTreeMap<Name, Sent>,
}

/// Resource of a response in flight.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// The version; `None` for a removal.
    pub(super) version: Option<Version>,
    /// The body, where [`Watch::bodies`] keeps it.
    pub(super) body: Option<Bytes>,
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
        type_url: &str,
        subscription: &Subscription,
        resources: &R,
    ) -> Self {
        let mut watch = Self::default();
        match subscription {
            Subscription::Changes { subscribe, unsubscribe, initial } => {
                watch.wildcard = subscribe.is_empty() && has_wildcard(type_url);
                watch.change(type_url, &[], subscribe, resources);
                watch.change(type_url, unsubscribe, &[], resources);
                for (name, version) in initial {
                    let name = shared_name(type_url, name, resources);
                    let version = Version::parse(version);
                    if watch.wildcard {
                        watch.entries.entry(name.clone()).or_default();
                    }
                    if let Some(entry) = watch.entries.get_mut(&name) {
                        (entry.accepted, entry.told) = (Some(version), true);
                    }
                }
                watch.dirty = watch
                    .all(type_url, resources)
                    .into_iter()
                    .map(|name| (name, Resend::IfChanged))
                    .collect();
            }
            Subscription::Whole { names, version } => {
                watch.replace(type_url, names, resources);
                if !version.is_empty() {
                    watch.resume(type_url, Version::parse(version), resources);
                }
            }
        }
        watch
    }

    /// Takes over the state of an earlier stream if the client has exactly the current one.
    fn resume<R: Resources>(&mut self, type_url: &str, version: Version, resources: &R) {
        let wanted = self.all(type_url, resources).into_iter().filter_map(|name| {
            let found = self.wanted(type_url, &name, resources)?;
            Some((found.name, found.version))
        });
        let wanted: BTreeMap<_, _> = wanted.collect();
        if state_version(wanted.iter().map(|(name, version)| (name, *version))) != version {
            return;
        }
        let whole = self.is_whole(type_url);
        for (name, version) in wanted {
            if whole {
                self.bodies.insert(name.clone(), resources.body(type_url, &name));
            }
            let entry = self.entries.entry(name).or_default();
            (entry.accepted, entry.told) = (Some(version), true);
        }
        self.answered = true;
        self.dirty.clear();
    }

    /// Changes the subscription of a delta client.
    pub(super) fn change<R: Resources>(
        &mut self,
        type_url: &str,
        unsubscribe: &[String],
        subscribe: &[String],
        resources: &R,
    ) {
        for name in unsubscribe {
            if name == WILDCARD {
                self.leave_wildcard();
            } else {
                self.drop_name(name);
            }
        }
        for name in subscribe {
            if name == WILDCARD {
                self.wildcard = true;
                for name in resources.names(type_url) {
                    self.dirty.entry(name).or_insert(Resend::IfChanged);
                }
            } else {
                self.add_name(type_url, name, Resend::Always, resources);
            }
        }
    }

    /// Replaces the subscription of a state-of-the-world client.
    pub(super) fn replace<R: Resources>(
        &mut self,
        type_url: &str,
        names: &[String],
        resources: &R,
    ) {
        let wildcard = names.iter().any(|name| name == WILDCARD)
            || (names.is_empty() && !self.named && has_wildcard(type_url));
        self.named |= !names.is_empty();
        let kept: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let gone =
            self.entries.iter().filter(|(name, entry)| entry.explicit && !kept.contains(&***name));
        let gone: Vec<_> = gone.map(|(name, _)| name.clone()).collect();
        if wildcard && !self.wildcard {
            for name in resources.names(type_url) {
                self.dirty.entry(name).or_insert(Resend::IfChanged);
            }
        }
        for name in gone {
            self.drop_name(&name);
        }
        if self.wildcard && !wildcard {
            self.leave_wildcard();
        }
        self.wildcard = wildcard;
        for name in kept.into_iter().filter(|name| *name != WILDCARD) {
            if !self.entries.get(name).is_some_and(|entry| entry.explicit) {
                self.add_name(type_url, name, Resend::IfChanged, resources);
            }
        }
    }

    fn add_name<R: Resources>(&mut self, type_url: &str, name: &str, why: Resend, resources: &R) {
        let name = shared_name(type_url, name, resources);
        let entry = self.entries.entry(name.clone()).or_default();
        if !entry.explicit {
            entry.explicit = true;
            self.explicit += 1;
        }
        self.mark(name, why);
    }

    fn drop_name(&mut self, name: &str) {
        let Some((shared, entry)) = self.entries.get_key_value(name) else { return };
        let shared = shared.clone();
        if !self.wildcard {
            return self.forget(&shared);
        }
        if entry.explicit {
            // The client cannot know whether the wildcard covers the name: it gets an answer.
            self.explicit -= 1;
            if let Some(entry) = self.entries.get_mut(name) {
                entry.explicit = false;
            }
            self.mark(shared, Resend::Always);
        }
    }

    /// Forgets all names except those that the client subscribes to explicitly.
    fn leave_wildcard(&mut self) {
        self.wildcard = false;
        self.entries.retain(|_, entry| entry.explicit);
        let entries = &self.entries;
        self.dirty.retain(|name, _| entries.contains_key(name));
        self.suspects.retain(|name| entries.contains_key(name));
        self.rejected.retain(|name, _| entries.contains_key(name));
        self.bodies.retain(|name, _| entries.contains_key(name));
        if let Some(sent) = &mut self.in_flight {
            sent.content.retain(|name, _| entries.contains_key(name));
        }
    }

    fn forget(&mut self, name: &Name) {
        if self.entries.remove(name).is_some_and(|entry| entry.explicit) {
            self.explicit -= 1;
        }
        self.dirty.remove(name);
        self.suspects.remove(name);
        self.rejected.remove(name);
        self.bodies.remove(name);
        if let Some(sent) = &mut self.in_flight {
            sent.content.remove(name);
        }
    }

    /// Adds a name to the dirty set.
    pub(super) fn mark(&mut self, name: Name, why: Resend) {
        let mark = self.dirty.entry(name).or_insert(why);
        *mark = why.max(*mark);
    }

    /// Lists all names that the client subscribes to or has.
    pub(super) fn all<R: Resources>(&self, type_url: &str, resources: &R) -> Vec<Name> {
        let listed = if self.wildcard { resources.names(type_url) } else { Vec::new() };
        // A resource may vanish before the client acknowledges it.
        let sent = self.in_flight.iter().flat_map(|sent| sent.content.keys());
        self.entries.keys().chain(sent).cloned().chain(listed).collect()
    }

    /// Finds the resource that the client should have under a name.
    pub(super) fn wanted<R: Resources>(
        &self,
        type_url: &str,
        name: &str,
        resources: &R,
    ) -> Option<Found> {
        let explicit = self.entries.get(name).is_some_and(|entry| entry.explicit);
        let found = resources.find(type_url, name)?;
        (explicit || (self.wildcard && !found.on_demand)).then_some(found)
    }

    /// Takes the ACK of the response in flight.
    pub(super) fn acknowledge(&mut self) {
        let Some(InFlight { nonce, content }) = self.in_flight.take() else { return };
        for (name, Sent { version, body }) in content {
            if self.rejected.get(&name).is_some_and(|rejected| Some(rejected.version) != version) {
                self.rejected.remove(&name);
            }
            match body {
                Some(body) => self.bodies.insert(name.clone(), body),
                None => self.bodies.remove(&name),
            };
            let entry = self.entries.entry(name.clone()).or_default();
            if version.is_none() && !entry.explicit {
                self.entries.remove(&name);
                continue;
            }
            entry.used &= version.is_some();
            entry.uncertain = false;
            (entry.accepted, entry.nonce, entry.told) = (version, nonce, true);
        }
    }

    /// Takes the NACK of the response in flight. Its error covers the whole response: of several
    /// resources each is sent again alone, once, to find the culprit.
    pub(super) fn reject(&mut self, error: Status) {
        self.nacks += 1;
        let Some(sent) = &self.in_flight else { return };
        let resources = sent.content.iter().filter_map(|(name, sent)| Some((name, sent.version?)));
        let resources: Vec<_> = resources.map(|(name, sent)| (name.clone(), sent)).collect();
        if resources.is_empty() {
            // A removal has no content that could change: sending it again would not end.
            return self.acknowledge();
        }
        if let [(name, version)] = &*resources {
            let rejection = Rejection { version: *version, reason: error.message };
            self.rejected.insert(name.clone(), rejection);
        } else {
            for (name, _) in resources {
                self.entries.entry(name.clone()).or_default().uncertain = true;
                self.suspects.insert(name);
            }
        }
        let removals = self.in_flight.take().into_iter().flat_map(|sent| sent.content);
        for (name, _) in removals.filter(|(_, sent)| sent.version.is_none()) {
            let entry = self.entries.entry(name.clone()).or_default();
            (entry.uncertain, entry.used) = (true, false);
            self.mark(name, Resend::IfChanged);
        }
    }

    /// True if the client has exactly the published state.
    pub(super) fn is_settled<R: Resources>(&self, type_url: &str, resources: &R) -> bool {
        self.answered
            && self.in_flight.is_none()
            && self.dirty.is_empty()
            && self.suspects.is_empty()
            && !self.entries.values().any(|entry| entry.uncertain)
            && !self.rejected.iter().any(|(name, rejected)| {
                resources.find(type_url, name).is_some_and(|f| f.version == rejected.version)
            })
    }

    /// True if the current version of a resource was rejected.
    pub(super) fn is_rejected(&self, found: &Found) -> bool {
        self.rejected.get(&found.name).is_some_and(|rejected| rejected.version == found.version)
    }

    /// True if state of the world deletes the resources that a response leaves out.
    pub(super) fn is_whole(&self, type_url: &str) -> bool {
        self.wildcard || matches!(type_url, CLUSTER | LISTENER)
    }
}

/// Version of a whole state, for clients that know no versions of single resources.
pub(super) fn state_version<'a>(resources: impl Iterator<Item = (&'a Name, Version)>) -> Version {
    Version::new(&resources.collect::<Vec<_>>())
}

/// True if a first request without names means all names.
fn has_wildcard(type_url: &str) -> bool {
    !matches!(type_url, ENDPOINT | ROUTE | SECRET | EXTENSION_CONFIG)
}

/// Returns the name with memory that all sessions share, if the resource exists.
fn shared_name<R: Resources>(type_url: &str, name: &str, resources: &R) -> Name {
    resources.find(type_url, name).map_or_else(|| name.into(), |found| found.name)
}

const WILDCARD: &str = "*";
