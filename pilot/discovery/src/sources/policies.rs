//! Policies of mutual TLS: objects `PeerAuthentication`.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use kube_access::with_causes;
use pilot_registry::event::ObjectKey;
use pilot_routing::peer_authentication::{KIND, PLURAL, PeerAuthentication};
use serde_json::Value;
use tokio::time::sleep;

use super::Sink;
use crate::publish::Input;

/// Known policies. An object that became invalid stays as it was: to drop a strict policy would
/// open its workloads. Without a valid state it counts as absent.
#[derive(Clone, Debug, Default)]
pub(super) struct Policies {
    known: BTreeMap<ObjectKey, PeerAuthentication>,
}

impl Policies {
    /// Takes an object. `before` are the policies known before.
    fn set(&mut self, key: ObjectKey, object: &Value, before: &Self, sink: &Sink) {
        let policy = PeerAuthentication::from_object(object).or_else(|error| {
            sink.rejected(KIND);
            let last = before.known.get(&key).cloned();
            let effect =
                if last.is_some() { "its last valid state stays" } else { "it is not used" };
            tracing::warn!("{error}; {effect}");
            last.ok_or(error)
        });
        match policy {
            Ok(policy) => drop(self.known.insert(key, policy)),
            Err(_) => drop(self.known.remove(&key)),
        }
    }

    /// Takes all objects of a directory.
    pub(super) fn replace(&mut self, objects: &[Value], sink: &Sink) {
        let before = std::mem::take(self);
        for object in objects {
            let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
            self.set(ObjectKey::new(text("namespace"), text("name")), object, &before, sink);
        }
        sink.settings(self.input());
    }

    fn input(&self) -> Input {
        Input::PeerAuthentications(self.known.values().cloned().collect())
    }
}

/// Watches the objects of a cluster. Without their definition there is none, until it is added.
pub(super) async fn watch(client: Client, sink: Sink) {
    let version = GroupVersionKind::gvk("security.istio.io", "v1", KIND);
    let resource = ApiResource::from_gvk_with_plural(&version, PLURAL);
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let config = watcher::Config::default().timeout(WATCH_TIMEOUT);
    let mut events = Box::pin(kube::runtime::watcher(api, config));
    let (mut policies, mut listing) = (Policies::default(), Policies::default());
    let mut is_failing = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => {
                listing = Policies::default();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                set(&mut listing, &object, &policies, &sink);
                continue;
            }
            Ok(Event::InitDone) => policies = std::mem::take(&mut listing),
            Ok(Event::Apply(object)) => {
                let before = policies.clone();
                set(&mut policies, &object, &before, &sink);
            }
            Ok(Event::Delete(object)) => drop(policies.known.remove(&key(&object))),
            Err(error) if is_undefined(&error) => {
                policies = Policies::default();
                sink.settings(policies.input());
                sleep(WITHOUT_DEFINITION).await;
                continue;
            }
            Err(error) => {
                if !std::mem::replace(&mut is_failing, true) {
                    let error = with_causes(&error);
                    tracing::warn!(
                        resource = PLURAL,
                        error,
                        "watch failed; the last known objects stay"
                    );
                }
                sleep(PAUSE).await;
                continue;
            }
        }
        is_failing = false;
        sink.settings(policies.input());
    }
}

/// True if the cluster does not know the kind.
fn is_undefined(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

fn set(policies: &mut Policies, object: &DynamicObject, before: &Policies, sink: &Sink) {
    let Ok(value) = serde_json::to_value(object) else { return };
    policies.set(key(object), &value, before, sink);
}

fn key(object: &DynamicObject) -> ObjectKey {
    let metadata = &object.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    ObjectKey::new(text(&metadata.namespace), text(&metadata.name))
}

/// Seconds after which a watch is opened anew.
const WATCH_TIMEOUT: u32 = 290;
const PAUSE: Duration = Duration::from_secs(1);
const WITHOUT_DEFINITION: Duration = Duration::from_secs(10);
