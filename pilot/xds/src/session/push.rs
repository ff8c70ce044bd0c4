//! Order of what is sent: make before break.
//!
//! New and changed clusters come first, then their endpoints. Listeners and routes follow once the
//! client has accepted or rejected the clusters and endpoints that they need. A cluster is removed
//! after the client has accepted all listeners and routes of the published state, none of which
//! needs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::name::Name;
use super::resources::{EncodedResource, OfType, Reference, Resources};
use super::response::Response;
use super::watch::{InFlight, Resend, Sent, Watch, is_whole, state_version};
use super::{GRACE, Session};
use crate::service::Variant;
use crate::type_urls::{CLUSTER, ENDPOINT, EXTENSION_CONFIG, LISTENER, ROUTE, SECRET};

/// State of a cluster for the routes that need it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Gate {
    /// The client has it and its endpoints.
    Open,
    /// It is on its way, or its endpoints are.
    Waiting,
    /// The client has rejected it or its endpoints.
    Rejected,
}

impl<R: Resources> Session<R> {
    /// Returns the responses that can be sent now.
    pub(super) fn advance(&mut self, resources: &R) -> Vec<Response> {
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

    fn push(&mut self, type_url: &Arc<str>, resources: &R) -> Option<Response> {
        let of = OfType { type_url, resources };
        let watch = self.watches.get(type_url)?;
        let is_idle = watch.dirty.is_empty() && watch.suspects.is_empty() && watch.answered;
        if watch.in_flight.is_some() || is_idle {
            return None;
        }
        let batch = self.single(of, watch).unwrap_or_else(|| self.batch(of, watch));
        let watch = self.watches.get_mut(type_url)?;
        for name in &batch.done {
            // What became of a suspect is up to the next batch: the client may have it.
            if watch.suspects.remove(name) {
                watch.mark(name.clone(), Resend::IfChanged);
            } else {
                watch.dirty.remove(name);
            }
        }
        if matches!(&**type_url, LISTENER | ROUTE) {
            let sent = batch.resources.iter().map(|found| &found.references);
            let current = batch.current.iter().map(|found| &found.references);
            for references in current.chain(sent) {
                self.mark_complete(references, resources);
            }
        }
        let watch = self.watches.get_mut(type_url)?;
        if batch.waits && !watch.answered {
            // An Envoy that starts takes the first response for complete.
            return None;
        }
        let sent = batch.resources.iter().map(|found| &found.name).chain(&batch.removed);
        watch.unmark(&sent.collect::<Vec<_>>());
        let sent = batch.resources.iter().map(|found| {
            (found.name.clone(), Sent { resource: Some(found.clone()), outdated: false })
        });
        let mut content: BTreeMap<_, _> = sent.collect();
        for name in batch.removed {
            if self.variant == Variant::StateOfTheWorld && !is_whole(type_url) {
                // State of the world cannot say that these do not exist.
                watch.held.update(of, &name, |entry| entry.accepted = None);
            } else {
                content.insert(name, Sent { resource: None, outdated: false });
            }
        }
        if content.is_empty() && watch.answered {
            return None;
        }
        watch.answered = true;
        self.nonce += 1;
        let response = response(self.variant, type_url, self.nonce, watch, &content, resources);
        let is_single = content.values().filter(|sent| sent.resource.is_some()).count() == 1;
        watch.in_flight = Some(InFlight { nonce: self.nonce, is_single, content });
        if **type_url == *CLUSTER {
            self.mark_endpoints(&batch.resources, resources);
        }
        Some(response)
    }

    /// Selects the resources of the next response.
    fn batch(&self, of: OfType<'_, R>, watch: &Watch) -> Batch {
        let mut batch = Batch::default();
        let mut removals = Vec::new();
        let mut size = 0;
        for (name, why) in &watch.dirty {
            if size >= self.limits.response_bytes && self.is_divisible(of.type_url) {
                batch.more = true;
                break;
            }
            let entry = watch.held.get(of, name).unwrap_or_default();
            match watch.wanted_with(of, name, entry) {
                Some(found) if watch.is_rejected(found) => batch.done.push(name.clone()),
                Some(found)
                    if entry.accepted == Some(found.version)
                        && !entry.uncertain
                        && *why == Resend::IfChanged =>
                {
                    batch.done.push(name.clone());
                    batch.current.push(found.clone());
                }
                Some(found) if self.waits(of, found) => batch.waits = true,
                Some(found) => {
                    size += found.delta.len();
                    batch.resources.push(found.clone());
                }
                None if entry.accepted.is_some() || entry.uncertain => removals.push(name),
                // A name that does not exist is answered once per subscription.
                None if (entry.explicit && !entry.told) || *why == Resend::Always => {
                    batch.removed.push(name.clone());
                }
                None => batch.done.push(name.clone()),
            }
        }
        if matches!(of.type_url, SECRET | EXTENSION_CONFIG) {
            // Envoy fails connections at once without them (envoy#32823).
            batch.done.extend(removals.into_iter().cloned());
        } else if !removals.is_empty() && !batch.waits && !batch.more && self.permits_removals(of) {
            batch.removed.extend(removals.into_iter().cloned());
        }
        batch
    }

    /// True if a response may have a part of what is to be sent: the next one follows the ACK. The
    /// listeners wait for all of their clusters in any case.
    fn is_divisible(&self, type_url: &str) -> bool {
        match self.variant {
            Variant::Delta => matches!(type_url, CLUSTER | ENDPOINT | ROUTE),
            Variant::StateOfTheWorld => !is_whole(type_url),
        }
    }

    /// Selects one resource of a rejected response.
    fn single(&self, of: OfType<'_, R>, watch: &Watch) -> Option<Batch> {
        let mut batch = Batch::default();
        for name in &watch.suspects {
            match watch.wanted(of, name) {
                Some(found) if !watch.is_rejected(found) => {
                    if !self.waits(of, found) {
                        batch.resources.push(found.clone());
                        return Some(batch);
                    }
                }
                _ => batch.done.push(name.clone()),
            }
        }
        (!batch.done.is_empty()).then_some(batch)
    }

    /// True if a resource waits for clusters that are on their way to the client.
    fn waits(&self, of: OfType<'_, R>, found: &EncodedResource) -> bool {
        if !matches!(of.type_url, LISTENER | ROUTE) {
            return false;
        }
        // Clusters are sent in the order of their names: of many parts, the last one decides.
        let needed = found.references.iter().rev();
        let mut needed = needed.filter(|reference| reference.type_url == CLUSTER).peekable();
        if needed.peek().is_none() {
            return false;
        }
        let clusters = match self.watches.get(CLUSTER) {
            Some(clusters) if clusters.wildcard => clusters,
            // Such a client, gRPC's, asks for clusters after it has seen the routes.
            Some(_) => return false,
            None if self.watches.get(LISTENER).is_some_and(|watch| !watch.wildcard) => {
                return false;
            }
            None => return !self.grace_is_over(),
        };
        // One service that the client cannot take must not hold back the routes of all others.
        let gate = |name: &Name| self.cluster_gate(clusters, name, of.resources);
        needed.any(|needed| gate(&needed.name) == Gate::Waiting)
    }

    /// Checks that the client has a cluster and its endpoints.
    fn cluster_gate(&self, clusters: &Watch, name: &Name, resources: &R) -> Gate {
        let of = OfType { type_url: CLUSTER, resources };
        let in_flight = clusters.in_flight.as_ref().and_then(|sent| sent.content.get(name));
        if in_flight.is_none() && clusters.held.is_settled(name) {
            return Gate::Open;
        }
        let Some(found) = of.find(name) else { return Gate::Open };
        let leaves = in_flight.is_some_and(|sent| sent.resource.is_none());
        let entry = clusters.held.get(of, name).unwrap_or_default();
        // Envoy keeps a cluster in use until its new version is ready.
        if entry.complete && !leaves {
            return Gate::Open;
        }
        if clusters.is_rejected(found) {
            return Gate::Rejected;
        }
        if in_flight.is_some() || entry.uncertain || entry.accepted != Some(found.version) {
            return Gate::Waiting;
        }
        let of = OfType { type_url: ENDPOINT, resources };
        for needed in found.references.iter().filter(|needed| needed.type_url == ENDPOINT) {
            let Some(endpoints) = self.watches.get(ENDPOINT) else { return Gate::Waiting };
            if endpoints.held.get(of, &needed.name).is_some_and(|found| found.told) {
                continue;
            }
            let found = of.find(&needed.name);
            let rejected = found.is_some_and(|found| endpoints.is_rejected(found));
            return if rejected { Gate::Rejected } else { Gate::Waiting };
        }
        Gate::Open
    }

    /// True if no resource at the client can refer to one that is not in the published state.
    fn permits_removals(&self, of: OfType<'_, R>) -> bool {
        let referrers: &[&str] = match of.type_url {
            CLUSTER => &[LISTENER, ROUTE],
            ROUTE => &[LISTENER],
            ENDPOINT => &[CLUSTER],
            _ => &[],
        };
        referrers.iter().all(|referrer| match self.watches.get(*referrer) {
            Some(watch) => watch.is_settled(OfType { type_url: referrer, ..of }),
            // After a reconnect the client may have listeners that it has not mentioned yet.
            None => self.grace_is_over(),
        })
    }

    /// Notes the clusters that listeners and routes of the client use.
    fn mark_complete(&mut self, references: &[Reference], resources: &R) {
        let has_endpoints = self.has_endpoints();
        let Some(clusters) = self.watches.get_mut(CLUSTER) else { return };
        let of = OfType { type_url: CLUSTER, resources };
        if has_endpoints {
            clusters.held.complete(of);
        }
        let used = references.iter().filter(|reference| reference.type_url == CLUSTER);
        let used = used.map(|reference| &reference.name);
        let used: Vec<_> = used.filter(|name| !clusters.held.is_settled(name)).collect();
        let Some(clusters) = self.watches.get(CLUSTER) else { return };
        let is_open = |name: &&Name| self.cluster_gate(clusters, name, resources) == Gate::Open;
        let used: Vec<_> = used.into_iter().filter(is_open).collect();
        let Some(clusters) = self.watches.get_mut(CLUSTER) else { return };
        for name in used {
            clusters.held.update(of, name, |entry| entry.complete = true);
        }
    }

    /// Marks the endpoints of new and changed clusters: the clusters do not become ready without
    /// (envoy#13009).
    fn mark_endpoints(&mut self, clusters: &[Arc<EncodedResource>], resources: &R) {
        let of = OfType { type_url: ENDPOINT, resources };
        let needed = clusters.iter().flat_map(|found| &found.references);
        let needed = needed.filter(|reference| reference.type_url == ENDPOINT);
        let Some(endpoints) = self.watches.get_mut(ENDPOINT) else {
            self.early_endpoints.extend(needed.map(|reference| reference.name.clone()));
            return;
        };
        for Reference { name, .. } in needed {
            if endpoints.held.get(of, name).is_none() {
                continue;
            }
            endpoints.held.update(of, name, |entry| entry.told = false);
            endpoints.mark(name.clone(), Resend::Always);
            let sent = endpoints.in_flight.as_mut().and_then(|sent| sent.content.get_mut(name));
            if let Some(sent) = sent {
                sent.outdated = true;
            }
        }
    }

    /// Forgets what the client has in common with the published state, once it has all clusters
    /// and their endpoints.
    pub(super) fn settle(&mut self, resources: &R) {
        let of = OfType { type_url: CLUSTER, resources };
        if ![CLUSTER, ENDPOINT]
            .iter()
            .all(|type_url| self.watches.get(*type_url).is_some_and(Watch::is_at_rest))
        {
            return;
        }
        for (type_url, watch) in &mut self.watches {
            // Clusters are settled below: they need their endpoints.
            if **type_url != *CLUSTER && watch.is_at_rest() {
                watch.held.settle(OfType { type_url, resources }, !watch.wildcard);
            }
        }
        let has_endpoints = self.has_endpoints();
        if has_endpoints && let Some(clusters) = self.watches.get_mut(CLUSTER) {
            clusters.held.complete(of);
        } else if let Some(clusters) = self.watches.get(CLUSTER) {
            let incomplete = clusters.held.differing().filter(|(_, entry)| !entry.complete);
            let published = incomplete.filter(|&(name, _)| of.find(name).is_some());
            let complete = published
                .filter(|(name, _)| self.cluster_gate(clusters, name, resources) == Gate::Open);
            let complete: Vec<_> = complete.map(|(name, _)| name.clone()).collect();
            if let Some(clusters) = self.watches.get_mut(CLUSTER) {
                for name in complete {
                    clusters.held.update(of, &name, |entry| entry.complete = true);
                }
            }
        }
        if let Some(clusters) = self.watches.get_mut(CLUSTER) {
            clusters.held.settle(of, !clusters.wildcard);
        }
    }

    /// True if the client has all published endpoints.
    fn has_endpoints(&self) -> bool {
        self.watches.get(ENDPOINT).is_some_and(|watch| watch.held.has_all())
    }

    /// True if a client that reconnects has had time to mention all its types.
    fn grace_is_over(&self) -> bool {
        self.first_request.is_some_and(|first| self.now.saturating_sub(first) >= GRACE)
    }
}

/// Selection of resources for a response.
#[derive(Default)]
struct Batch {
    resources: Vec<Arc<EncodedResource>>,
    removed: Vec<Name>,
    /// Names that need no response.
    done: Vec<Name>,
    /// Resources of which the client has the published version.
    current: Vec<Arc<EncodedResource>>,
    /// True if a resource waits for clusters that are on their way.
    waits: bool,
    /// True if the response is full.
    more: bool,
}

fn response<R: Resources>(
    variant: Variant,
    type_url: &Arc<str>,
    nonce: u32,
    watch: &Watch,
    content: &BTreeMap<Name, Sent>,
    resources: &R,
) -> Response {
    let of = OfType { type_url, resources };
    let (mut sent, mut removed, mut state) = (Vec::new(), Vec::new(), BTreeMap::new());
    if variant == Variant::StateOfTheWorld {
        for name in watch.held.names(of) {
            let accepted = watch.held.get(of, &name).and_then(|entry| entry.accepted);
            let Some(accepted) = accepted else { continue };
            let is_kept = is_whole(type_url) && !content.contains_key(&name);
            sent.extend(watch.held.repeated(of, &name).filter(|_| is_kept).cloned());
            state.insert(name, accepted);
        }
        sent.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    }
    for (name, Sent { resource, .. }) in content {
        if let Some(resource) = resource {
            state.insert(name.clone(), resource.version);
            sent.push(resource.clone());
        } else {
            removed.push(name.clone());
            state.remove(name);
        }
    }
    let state = state.iter().map(|(name, version)| (name, *version));
    let state = (variant == Variant::StateOfTheWorld).then(|| state_version(state));
    Response { type_url: type_url.clone(), nonce, state, resources: sent, removed }
}
