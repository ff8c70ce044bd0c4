//! Order of what is sent: make before break.
//!
//! New and changed clusters come first, then their endpoints. Listeners and routes follow once the
//! client has accepted the clusters and endpoints that they need. A cluster is removed after the
//! client has accepted all listeners and routes of the published state, none of which needs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::resources::{Found, Name, Reference, Resources};
use super::response::{Response, SentResource};
use super::watch::{InFlight, Resend, Sent, Watch, state_version};
use super::{GRACE, Session};
use crate::service::Variant;
use crate::type_urls::{CLUSTER, ENDPOINT, EXTENSION_CONFIG, LISTENER, ROUTE, SECRET};

/// Permission to send a listener or route.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Gate {
    Open,
    /// A cluster that it needs is on its way.
    Waiting,
    /// The client has rejected a cluster that it needs.
    Rejected,
}

impl Session {
    /// Returns the responses that can be sent now.
    pub(super) fn advance<R: Resources>(&mut self, resources: &R) -> Vec<Response> {
        let mut responses = Vec::new();
        loop {
            let before = (responses.len(), self.pending());
            for type_url in self.types() {
                responses.extend(self.push(&type_url, resources));
            }
            // A type that turns out to be up to date may permit a removal of an earlier one.
            if before == (responses.len(), self.pending()) {
                return responses;
            }
        }
    }

    fn types(&self) -> Vec<Arc<str>> {
        const ORDER: [&str; 4] = [CLUSTER, ENDPOINT, LISTENER, ROUTE];
        let mut types: Vec<_> = self.watches.keys().cloned().collect();
        types.sort_by_key(|found| ORDER.iter().position(|known| **known == **found).unwrap_or(4));
        types
    }

    fn pending(&self) -> usize {
        self.watches.values().map(|watch| watch.dirty.len() + watch.suspects.len()).sum()
    }

    fn push<R: Resources>(&mut self, type_url: &Arc<str>, resources: &R) -> Option<Response> {
        let watch = self.watches.get(type_url)?;
        let is_idle = watch.dirty.is_empty() && watch.suspects.is_empty() && watch.answered;
        if watch.in_flight.is_some() || is_idle {
            return None;
        }
        let batch = self
            .single(type_url, watch, resources)
            .unwrap_or_else(|| self.batch(type_url, watch, resources));
        let watch = self.watches.get_mut(type_url)?;
        for name in &batch.done {
            watch.dirty.remove(name);
            watch.suspects.remove(name);
        }
        if matches!(&**type_url, LISTENER | ROUTE) {
            let known = batch.current.iter().chain(batch.resources.iter().map(|found| &found.name));
            let known = known.flat_map(|name| resources.references(type_url, name));
            self.mark_used(known);
        }
        let watch = self.watches.get_mut(type_url)?;
        if batch.waits && !watch.answered {
            // An Envoy that starts takes the first response for complete.
            return None;
        }
        let sends = batch.resources.iter().map(|found| (&found.name, Some(found.version)));
        let removes = batch.removed.iter().map(|name| (name, None));
        let mut content = BTreeMap::new();
        let is_whole = watch.is_whole(type_url);
        let keeps_bodies = is_whole && self.variant == Variant::StateOfTheWorld;
        for (name, version) in sends.chain(removes) {
            watch.dirty.remove(name);
            watch.suspects.remove(name);
            let body = (keeps_bodies && version.is_some()).then(|| resources.body(type_url, name));
            content.insert(name.clone(), Sent { version, body });
        }
        if self.variant == Variant::StateOfTheWorld && !is_whole {
            // State of the world cannot say that these do not exist.
            for name in batch.removed {
                content.remove(&name);
                if let Some(entry) = watch.entries.get_mut(&name) {
                    (entry.accepted, entry.told) = (None, true);
                }
            }
        }
        if content.is_empty() && watch.answered {
            return None;
        }
        watch.answered = true;
        self.nonce += 1;
        let response = response(self.variant, type_url, self.nonce, watch, &content, resources);
        watch.in_flight = Some(InFlight { nonce: self.nonce, content });
        if **type_url == *CLUSTER {
            self.mark_endpoints(&batch.resources, resources);
        }
        Some(response)
    }

    /// Selects the resources of the next response.
    fn batch<R: Resources>(&self, type_url: &str, watch: &Watch, resources: &R) -> Batch {
        let mut batch = Batch::default();
        let mut removals = Vec::new();
        for (name, why) in &watch.dirty {
            let entry = watch.entries.get(name).copied().unwrap_or_default();
            match watch.wanted(type_url, name, resources) {
                Some(found) if watch.is_rejected(&found) => batch.done.push(name.clone()),
                Some(found)
                    if entry.accepted == Some(found.version)
                        && !entry.uncertain
                        && *why == Resend::IfChanged =>
                {
                    batch.done.push(name.clone());
                    batch.current.push(found.name);
                }
                Some(found) => match self.gate(type_url, name, resources) {
                    Gate::Open => batch.resources.push(found),
                    Gate::Waiting => batch.waits = true,
                    Gate::Rejected => {}
                },
                None if entry.accepted.is_some() || entry.uncertain => removals.push(name),
                // A name that does not exist is answered once per subscription.
                None if (entry.explicit && !entry.told) || *why == Resend::Always => {
                    batch.removed.push(name.clone());
                }
                None => batch.done.push(name.clone()),
            }
        }
        if matches!(type_url, SECRET | EXTENSION_CONFIG) {
            // Envoy fails connections at once without them (envoy#32823).
            batch.done.extend(removals.into_iter().cloned());
        } else if !removals.is_empty() && !batch.waits && self.permits_removals(type_url, resources)
        {
            batch.removed.extend(removals.into_iter().cloned());
        }
        batch
    }

    /// Selects one resource of a rejected response.
    fn single<R: Resources>(&self, type_url: &str, watch: &Watch, resources: &R) -> Option<Batch> {
        let mut batch = Batch::default();
        for name in &watch.suspects {
            match watch.wanted(type_url, name, resources) {
                Some(found) if !watch.is_rejected(&found) => {
                    if self.gate(type_url, name, resources) == Gate::Open {
                        batch.resources.push(found);
                        return Some(batch);
                    }
                }
                _ => batch.done.push(name.clone()),
            }
        }
        (!batch.done.is_empty()).then_some(batch)
    }

    fn gate<R: Resources>(&self, type_url: &str, name: &str, resources: &R) -> Gate {
        if !matches!(type_url, LISTENER | ROUTE) {
            return Gate::Open;
        }
        let mut needed = resources.references(type_url, name);
        needed.retain(|reference| reference.type_url == CLUSTER);
        if needed.is_empty() {
            return Gate::Open;
        }
        let clusters = match self.watches.get(CLUSTER) {
            Some(clusters) if clusters.wildcard => clusters,
            // Such a client, gRPC's, asks for clusters after it has seen the routes.
            Some(_) => return Gate::Open,
            None if self.watches.get(LISTENER).is_some_and(|watch| !watch.wildcard) => {
                return Gate::Open;
            }
            None if self.grace_is_over() => return Gate::Open,
            None => return Gate::Waiting,
        };
        let mut gate = Gate::Open;
        for needed in needed {
            match self.cluster_gate(clusters, &needed.name, resources) {
                Gate::Open => {}
                Gate::Rejected => gate = Gate::Rejected,
                Gate::Waiting => return Gate::Waiting,
            }
        }
        gate
    }

    /// Checks that the client has a cluster and its endpoints.
    fn cluster_gate<R: Resources>(&self, clusters: &Watch, name: &Name, resources: &R) -> Gate {
        let Some(found) = resources.find(CLUSTER, name) else { return Gate::Open };
        let in_flight = clusters.in_flight.as_ref().and_then(|sent| sent.content.get(name));
        let leaves = in_flight.is_some_and(|sent| sent.version.is_none());
        let entry = clusters.entries.get(name).copied().unwrap_or_default();
        // Envoy keeps a cluster in use until its new version is ready.
        if entry.used && !leaves {
            return Gate::Open;
        }
        if clusters.is_rejected(&found) {
            return Gate::Rejected;
        }
        if in_flight.is_some() || entry.uncertain || entry.accepted != Some(found.version) {
            return Gate::Waiting;
        }
        let needed = resources.references(CLUSTER, name).into_iter();
        for needed in needed.filter(|reference| reference.type_url == ENDPOINT) {
            let Some(endpoints) = self.watches.get(ENDPOINT) else { return Gate::Waiting };
            let told = endpoints.entries.get(&needed.name).filter(|found| found.told);
            if told.is_some_and(|found| found.nonce >= entry.nonce) {
                continue;
            }
            let found = resources.find(ENDPOINT, &needed.name);
            let rejected = found.is_some_and(|found| endpoints.is_rejected(&found));
            return if rejected { Gate::Rejected } else { Gate::Waiting };
        }
        Gate::Open
    }

    /// True if no resource at the client can refer to one that is not in the published state.
    fn permits_removals<R: Resources>(&self, type_url: &str, resources: &R) -> bool {
        let referrers: &[&str] = match type_url {
            CLUSTER => &[LISTENER, ROUTE],
            ROUTE => &[LISTENER],
            ENDPOINT => &[CLUSTER],
            _ => &[],
        };
        referrers.iter().all(|referrer| match self.watches.get(*referrer) {
            Some(watch) => watch.is_settled(referrer, resources),
            // After a reconnect the client may have listeners that it has not mentioned yet.
            None => self.grace_is_over(),
        })
    }

    /// Notes the clusters that listeners and routes of the client use.
    fn mark_used(&mut self, references: impl Iterator<Item = Reference>) {
        let Some(clusters) = self.watches.get_mut(CLUSTER) else { return };
        for cluster in references.filter(|reference| reference.type_url == CLUSTER) {
            if let Some(entry) = clusters.entries.get_mut(&cluster.name) {
                entry.used = true;
            }
        }
    }

    /// Marks the endpoints of new and changed clusters: the clusters do not become ready without
    /// (envoy#13009).
    fn mark_endpoints<R: Resources>(&mut self, clusters: &[Found], resources: &R) {
        let needed = clusters.iter().flat_map(|found| resources.references(CLUSTER, &found.name));
        let needed = needed.filter(|reference| reference.type_url == ENDPOINT);
        let Some(endpoints) = self.watches.get_mut(ENDPOINT) else {
            self.early_endpoints.extend(needed.map(|reference| reference.name));
            return;
        };
        for needed in needed {
            if endpoints.entries.contains_key(&needed.name) {
                endpoints.mark(needed.name, Resend::Always);
            }
        }
    }

    /// True if a client that reconnects has had time to mention all its types.
    fn grace_is_over(&self) -> bool {
        self.first_request.is_some_and(|first| self.now.saturating_sub(first) >= GRACE)
    }
}

/// Selection of resources for a response.
#[derive(Default)]
struct Batch {
    resources: Vec<Found>,
    removed: Vec<Name>,
    /// Names that need no response.
    done: Vec<Name>,
    /// Names of which the client has the published version.
    current: Vec<Name>,
    /// True if a resource waits for clusters that are on their way.
    waits: bool,
}

fn response<R: Resources>(
    variant: Variant,
    type_url: &Arc<str>,
    nonce: u32,
    watch: &Watch,
    content: &BTreeMap<Name, Sent>,
    resources: &R,
) -> Response {
    let mut sent = Vec::new();
    let mut removed = Vec::new();
    let mut state = BTreeMap::new();
    if variant == Variant::StateOfTheWorld {
        let held = watch.entries.iter();
        state.extend(held.filter_map(|(name, entry)| Some((name, entry.accepted?))));
        let kept = watch.bodies.iter().filter(|(name, _)| !content.contains_key(*name));
        sent.extend(kept.filter_map(|(name, body)| {
            let version = *state.get(name)?;
            Some(SentResource { name: name.clone(), version, body: body.clone() })
        }));
    }
    for (name, Sent { version, body }) in content {
        let Some(version) = *version else {
            removed.push(name.clone());
            state.remove(name);
            continue;
        };
        state.insert(name, version);
        let body = body.clone().unwrap_or_else(|| resources.body(type_url, name));
        sent.push(SentResource { name: name.clone(), version, body });
    }
    let state = (variant == Variant::StateOfTheWorld).then(|| state_version(state.into_iter()));
    Response { type_url: type_url.clone(), nonce, state, resources: sent, removed }
}
