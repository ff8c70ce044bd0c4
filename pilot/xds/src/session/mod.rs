//! Server's side of an xDS stream as a pure state machine, for both variants.
//!
//! A [`Session`] takes requests and changes of the published state, and returns responses. It has
//! one response in flight per type. Changes meanwhile wait for the ACK, which merges them: a
//! client gets as many responses as it acknowledges.

mod held;
mod limits;
mod name;
mod push;
mod request;
mod resources;
mod response;
mod resumption;
#[cfg(test)]
mod tests;
mod version;
mod view;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use limits::Bucket;
use resources::OfType;
use watch::{Resend, Watch};

pub use limits::{Close, Limits};
pub use name::{Name, NameHasher, NameKey, NameRef};
pub use request::{Request, Subscription, decode_node};
pub use resources::{Changes, EncodedResource, Reference, Resources};
pub use response::Response;
pub use version::Version;
pub use view::{NameView, TypeView};
pub use watch::Rejection;

use crate::service::Variant;
use crate::type_urls::{ENDPOINT, HEALTH_INFORMATION};

/// State of a stream.
#[derive(Clone, Debug)]
pub struct Session<R> {
    variant: Variant,
    limits: Limits,
    /// Published state.
    resources: R,
    watches: BTreeMap<Arc<str>, Watch>,
    /// Endpoints of clusters that were sent before the client has mentioned endpoints.
    early_endpoints: BTreeSet<Name>,
    /// Nonce of the last response.
    nonce: u32,
    /// Time of the current event, since the stream was opened.
    now: Duration,
    first_request: Option<Duration>,
    bucket: Bucket,
}

/// Event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a, R> {
    /// The client has sent a request.
    Request(Request<'a>),
    /// Another state was published.
    Published(R),
    /// A [`Session::deadline`] has passed.
    Timer,
}

impl<R: Resources> Session<R> {
    /// Creates the state of a new stream.
    pub fn new(variant: Variant, limits: Limits, resources: R) -> Self {
        Self {
            variant,
            limits,
            resources,
            watches: BTreeMap::new(),
            early_endpoints: BTreeSet::new(),
            nonce: 0,
            now: Duration::ZERO,
            first_request: None,
            bucket: Bucket::new(),
        }
    }

    /// Takes an event, and returns the responses to send in order, or the reason to close the
    /// stream. `now` counts from the opening of the stream.
    pub fn step(&mut self, now: Duration, event: Event<'_, R>) -> Result<Vec<Response>, Close> {
        self.now = now;
        let is_request = matches!(event, Event::Request(_));
        match event {
            Event::Request(request) => {
                let resources = self.resources.clone();
                self.request(request, &resources)?;
            }
            Event::Published(resources) => self.publish(resources),
            Event::Timer => {
                let limit = self.limits.first_request;
                if self.first_request.is_none() && now >= limit {
                    return Err(Close::FirstRequest { limit });
                }
            }
        }
        let resources = self.resources.clone();
        let responses = self.advance(&resources);
        if is_request {
            self.settle(&resources);
        }
        Ok(responses)
    }

    /// Returns the time of the next [`Event::Timer`], since the stream was opened.
    pub fn deadline(&self) -> Option<Duration> {
        let Some(first) = self.first_request else { return Some(self.limits.first_request) };
        let end = first + GRACE;
        let waits = self.watches.values().any(|watch| !watch.dirty.is_empty());
        (waits && self.now < end).then_some(end)
    }

    /// True if a response waits for its ACK.
    pub fn is_in_flight(&self) -> bool {
        self.watches.values().any(|watch| watch.in_flight.is_some())
    }

    /// True if a request has the nonce of an older response than the one in flight.
    pub fn is_expired(&self, request: &Request<'_>) -> bool {
        let watch = self.watches.get(request.type_url);
        let sent = watch.and_then(|watch| watch.in_flight.as_ref());
        let is_other = sent.is_some_and(|sent| sent.nonce.to_string() != request.nonce);
        is_other && !request.nonce.is_empty()
    }

    fn request(&mut self, request: Request<'_>, resources: &R) -> Result<(), Close> {
        self.first_request.get_or_insert(self.now);
        request.check(&self.limits)?;
        let Request { type_url, nonce, error, subscription } = request;
        if type_url == HEALTH_INFORMATION {
            // A report of the agent, which no resource answers.
            return self.bucket.take(self.now, &self.limits);
        }
        let Some(watch) = self.watches.get_mut(type_url) else {
            self.bucket.take(self.now, &self.limits)?;
            if self.watches.len() >= self.limits.types {
                return Err(Close::Types { limit: self.limits.types });
            }
            let of = OfType { type_url, resources };
            let mut watch = Watch::new(self.variant, of, &subscription);
            if type_url == ENDPOINT {
                for name in std::mem::take(&mut self.early_endpoints) {
                    if watch.held.get(of, &name).is_some() {
                        watch.held.update(of, &name, |entry| entry.told = false);
                        watch.mark(name, Resend::Always);
                    }
                }
            }
            self.watches.insert(type_url.into(), watch);
            return Ok(());
        };
        let of = OfType { type_url, resources };
        let in_flight = watch.in_flight.as_ref().map(|sent| sent.nonce.to_string());
        let is_reply = in_flight.is_some_and(|expected| expected == nonce);
        if !is_reply {
            self.bucket.take(self.now, &self.limits)?;
        }
        if is_reply {
            match error {
                Some(error) => watch.reject(of, error),
                None => watch.acknowledge(of),
            }
        }
        match subscription {
            Subscription::Changes { subscribe, unsubscribe, .. } => {
                watch.change(of, &unsubscribe, &subscribe);
            }
            // A stale request: the client repeats its names when it acknowledges the response that
            // is on its way.
            Subscription::Whole { .. }
                if !is_reply && !nonce.is_empty() && watch.in_flight.is_some() => {}
            Subscription::Whole { names, .. } => watch.replace(of, &names),
        }
        self.limits.check_names(type_url, watch.explicit)
    }

    /// Moves to another published state.
    fn publish(&mut self, resources: R) {
        let older = std::mem::replace(&mut self.resources, resources);
        let move_to = |type_url: &str, watch: &mut Watch, name: Name| {
            let older = OfType { type_url, resources: &older };
            let newer = OfType { type_url, resources: &self.resources };
            watch.held.move_to(older, newer, &name);
            if watch.wildcard || watch.held.get(newer, &name).is_some() {
                watch.mark(name, Resend::IfChanged);
            }
        };
        match self.resources.changes_since(&older) {
            Changes::All => {
                for (type_url, watch) in &mut self.watches {
                    let published = older.names(type_url).into_iter();
                    let mut names: BTreeSet<_> = published.collect();
                    names.extend(self.resources.names(type_url));
                    names.extend(watch.all(OfType { type_url, resources: &older }));
                    for name in names {
                        move_to(type_url, watch, name);
                    }
                }
            }
            Changes::Names(names) => {
                for (type_url, name) in names {
                    if let Some(watch) = self.watches.get_mut(&type_url) {
                        move_to(&type_url, watch, name);
                    }
                }
            }
        }
    }
}

/// Time in which a client that reconnects mentions all its types. Until then it may have listeners
/// that the server does not know of.
const GRACE: Duration = Duration::from_secs(5);
