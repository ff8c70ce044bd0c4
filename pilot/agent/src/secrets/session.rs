//! One SDS stream as a pure state machine.

use std::collections::BTreeMap;

use pilot_xds::messages::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};
use pilot_xds::type_urls;

use super::messages::Secret;

/// A secret with its version. Versions grow with each change of any secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VersionedSecret {
    /// Version of the secret.
    pub version: u64,
    /// The secret.
    pub secret: Secret,
}

/// Subscriptions of one stream, and the versions that it has been sent.
#[derive(Debug, Default)]
pub struct Session {
    /// Version sent last, by name; `None` if there was no secret yet.
    subscriptions: BTreeMap<String, Option<u64>>,
    responses: u64,
    last: Vec<(String, u64)>,
}

/// Effect of a request.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Received {
    /// Names that the stream subscribes to with this request.
    pub subscribed: Vec<String>,
    /// Names that the stream does not subscribe to any more.
    pub unsubscribed: Vec<String>,
    /// Answer to the last response, if the request is one.
    pub answer: Option<Answer>,
}

/// ACK or NACK of a response.
#[derive(Debug, Eq, PartialEq)]
pub struct Answer {
    /// Names and versions in the response.
    pub secrets: Vec<(String, u64)>,
    /// Reason of a NACK.
    pub rejected: Option<String>,
}

impl Session {
    /// Handles a request of state-of-the-world SDS, which names all subscriptions.
    pub fn receive(&mut self, request: DiscoveryRequest) -> Received {
        let is_initial = request.response_nonce.is_empty() || self.responses == 0;
        if !is_initial && !self.is_current(&request.response_nonce) {
            // The client answers a later response with its present names.
            return Received::default();
        }
        let answer = self.answer(&request.response_nonce, request.error_detail);
        let names = request.resource_names;
        let unsubscribed: Vec<_> =
            self.subscriptions.keys().filter(|name| !names.contains(name)).cloned().collect();
        let subscribed = self.change(names, &unsubscribed, false);
        Received { subscribed, unsubscribed, answer }
    }

    /// Handles a request of delta SDS. Its subscriptions count even if its nonce is old.
    pub fn receive_delta(&mut self, request: DeltaDiscoveryRequest) -> Received {
        let answer = self.answer(&request.response_nonce, request.error_detail);
        let mut unsubscribed = request.resource_names_unsubscribe;
        unsubscribed.retain(|name| self.subscriptions.contains_key(name));
        let mut names = request.resource_names_subscribe;
        // A name of an earlier stream is a subscription, whether it is repeated or not.
        names.extend(request.initial_resource_versions.into_keys());
        names.retain(|name| !unsubscribed.contains(name));
        let subscribed = self.change(names, &unsubscribed, true);
        Received { subscribed, unsubscribed, answer }
    }

    /// Returns the response of state-of-the-world SDS: all secrets, if one of them is new.
    pub fn response(
        &mut self,
        find: impl Fn(&str) -> Option<VersionedSecret>,
    ) -> Option<DiscoveryResponse> {
        self.changed(&find)?;
        let secrets: Vec<_> = self.subscriptions.keys().filter_map(|name| find(name)).collect();
        let version = secrets.iter().map(|secret| secret.version).max().unwrap_or_default();
        self.last = secrets.iter().map(|it| (it.secret.name.clone(), it.version)).collect();
        Some(DiscoveryResponse {
            version_info: version.to_string(),
            resources: secrets.iter().map(|it| it.secret.to_any()).collect(),
            type_url: type_urls::SECRET.to_owned(),
            nonce: self.next_nonce(),
        })
    }

    /// Returns the response of delta SDS: the new secrets, if there are any.
    pub fn delta_response(
        &mut self,
        find: impl Fn(&str) -> Option<VersionedSecret>,
    ) -> Option<DeltaDiscoveryResponse> {
        let secrets = self.changed(&find)?;
        self.last = secrets.iter().map(|it| (it.secret.name.clone(), it.version)).collect();
        let resources = secrets.iter().map(|it| Resource {
            version: it.version.to_string(),
            resource: Some(it.secret.to_any()),
            name: it.secret.name.clone(),
            aliases: Vec::new(),
        });
        Some(DeltaDiscoveryResponse {
            resources: resources.collect(),
            type_url: type_urls::SECRET.to_owned(),
            nonce: self.next_nonce(),
            ..DeltaDiscoveryResponse::default()
        })
    }

    /// Returns the secrets that have not been sent, and records them as sent.
    fn changed(
        &mut self,
        find: impl Fn(&str) -> Option<VersionedSecret>,
    ) -> Option<Vec<VersionedSecret>> {
        let mut changed = Vec::new();
        for (name, sent) in &mut self.subscriptions {
            if let Some(secret) = find(name).filter(|secret| *sent != Some(secret.version)) {
                *sent = Some(secret.version);
                changed.push(secret);
            }
        }
        (!changed.is_empty()).then_some(changed)
    }

    /// Changes subscriptions; returns the new names. A repeated name of delta SDS is sent again.
    fn change(&mut self, names: Vec<String>, removed: &[String], is_delta: bool) -> Vec<String> {
        for name in removed {
            self.subscriptions.remove(name);
        }
        let mut subscribed = Vec::new();
        for name in names {
            match self.subscriptions.get_mut(&name) {
                Some(sent) if is_delta => *sent = None,
                Some(_) => {}
                None => {
                    self.subscriptions.insert(name.clone(), None);
                    subscribed.push(name);
                }
            }
        }
        subscribed
    }

    fn answer(
        &mut self,
        nonce: &str,
        error: Option<pilot_xds::messages::Status>,
    ) -> Option<Answer> {
        if !self.is_current(nonce) {
            return None;
        }
        // Later requests with this nonce change subscriptions and answer nothing.
        let secrets = std::mem::take(&mut self.last);
        let answer = Answer { secrets, rejected: error.map(|error| error.message) };
        (!answer.secrets.is_empty()).then_some(answer)
    }

    fn is_current(&self, nonce: &str) -> bool {
        self.responses > 0 && nonce == self.responses.to_string()
    }

    fn next_nonce(&mut self) -> String {
        self.responses += 1;
        self.responses.to_string()
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
