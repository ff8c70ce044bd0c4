//! Policies of mutual TLS: objects `PeerAuthentication`.

use std::collections::BTreeMap;

use kube::Client;
use mesh::istio_kinds::PEER_AUTHENTICATION;
use pilot_registry::event::ObjectKey;
use pilot_routing::peer_authentication::{KIND, PeerAuthentication};
use serde_json::Value;

use super::Sink;
use super::istio_objects::{self, Change, key};
use crate::publish::Input;

/// Known policies. An object that became invalid stays as it was: to drop a strict policy would
/// open its workloads. Without a valid state it counts as absent.
#[derive(Clone, Debug, Default)]
pub(super) struct Policies {
    known: BTreeMap<ObjectKey, PeerAuthentication>,
}

impl Policies {
    /// Takes a change.
    pub(super) fn take(&mut self, change: Change, sink: &Sink) {
        match change {
            Change::Replace(objects) => {
                let before = std::mem::take(&mut self.known);
                for object in objects {
                    let last = before.get(&key(&object));
                    self.set(&object, last, sink);
                }
            }
            Change::Apply(object) => {
                let last = self.known.remove(&key(&object));
                self.set(&object, last.as_ref(), sink);
            }
            Change::Delete(key) => drop(self.known.remove(&key)),
        }
        sink.settings(Input::PeerAuthentications(self.known.values().cloned().collect()));
    }

    /// Takes an object. `last` is its last valid state.
    fn set(&mut self, object: &Value, last: Option<&PeerAuthentication>, sink: &Sink) {
        let policy = PeerAuthentication::from_object(object).or_else(|error| {
            sink.rejected(KIND);
            let effect =
                if last.is_some() { "its last valid state stays" } else { "it is not used" };
            tracing::warn!("{error}; {effect}");
            last.cloned().ok_or(error)
        });
        if let Ok(policy) = policy {
            self.known.insert(key(object), policy);
        }
    }
}

/// Watches the objects of a cluster. Without their definition there is none, until it is added.
pub(super) async fn watch(client: Client, sink: Sink) {
    let mut policies = Policies::default();
    let offer = |change| policies.take(change, &sink);
    istio_objects::watch(client, &PEER_AUTHENTICATION, offer).await;
}
