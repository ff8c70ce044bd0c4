//! State of a stream for debug pages and metrics.

use std::sync::Arc;

use super::Session;
use super::name::Name;
use super::resources::{OfType, Resources};
use super::version::Version;
use super::watch::Rejection;

/// State of a type.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TypeView {
    /// The type.
    pub type_url: Arc<str>,
    /// True if the client subscribes to all names.
    pub wildcard: bool,
    /// Nonce of the response that waits for its ACK.
    pub in_flight: Option<u32>,
    /// Names whose current version has not been sent: a response is in flight, or resources that
    /// they need are not there yet.
    pub waiting: Vec<Name>,
    /// Number of NACKs.
    pub nacks: u64,
    /// Names that the client subscribes to or has.
    pub names: Vec<NameView>,
}

/// State of a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameView {
    /// The name.
    pub name: Name,
    /// Version that was sent last.
    pub sent: Option<Version>,
    /// Version that the client accepted last.
    pub acknowledged: Option<Version>,
    /// Version that the client rejected.
    pub rejected: Option<Rejection>,
}

impl<R: Resources> Session<R> {
    /// Returns the state per type, in the order of the type URLs.
    pub fn view(&self) -> Vec<TypeView> {
        let types = self.watches.iter().map(|(type_url, watch)| {
            let content = watch.in_flight.as_ref().map(|sent| &sent.content);
            let of = OfType { type_url, resources: &self.resources };
            let mut names = Vec::new();
            let only_sent = content.into_iter().flat_map(|content| content.keys());
            let mut all = watch.held.names(of);
            all.extend(only_sent.chain(watch.rejected.keys()).cloned());
            all.sort_by_cached_key(ToString::to_string);
            all.dedup();
            for name in all {
                let acknowledged = watch.held.get(of, &name).and_then(|entry| entry.accepted);
                let rejected = watch.rejected.get(&name).cloned();
                let last = rejected.as_ref().map(|found| found.version).or(acknowledged);
                let sent = content.and_then(|content| content.get(&name));
                let sent = sent.map_or(last, |sent| Some(sent.resource.as_ref()?.version));
                names.push(NameView { name, sent, acknowledged, rejected });
            }
            TypeView {
                type_url: type_url.clone(),
                wildcard: watch.wildcard,
                in_flight: watch.in_flight.as_ref().map(|sent| sent.nonce),
                waiting: watch.dirty.keys().chain(&watch.suspects).cloned().collect(),
                nacks: watch.nacks,
                names,
            }
        });
        types.collect()
    }
}
