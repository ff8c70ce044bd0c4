//! Recorder of Kubernetes Events on the CA Secret.
//!
//! An Event about a cluster-scoped object would have to be in namespace `default`. One about the
//! Secret is in the installation's namespace, where the right to write it is.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube_access::event_note;

use super::api::ClusterApi;
use super::events::EventContent;
use super::writes::Writes;
use crate::options::Options;

/// Records Events once per [`AGAIN`].
pub(super) struct EventRecorder<'a> {
    api: &'a ClusterApi,
    options: &'a Options,
    written: BTreeMap<(&'static str, String), Timestamp>,
    /// Events to write at the next flush.
    pending: Vec<EventContent>,
}

impl<'a> EventRecorder<'a> {
    pub(super) fn new(api: &'a ClusterApi, options: &'a Options) -> Self {
        Self { api, options, written: BTreeMap::new(), pending: Vec::new() }
    }

    /// Queues Events for the next [`EventRecorder::flush`].
    pub(super) fn record(&mut self, content: impl IntoIterator<Item = EventContent>) {
        self.pending.extend(content);
    }

    /// Writes the queued Events. Errors are only logged: log and metrics say the same as the
    /// Events.
    pub(super) async fn flush(&mut self, secret: Option<&Secret>, writes: &mut Writes<'_>) {
        for content in std::mem::take(&mut self.pending) {
            let now = self.api.clock.now();
            self.written.retain(|_, written| now.duration_since(*written) < AGAIN);
            let key = (content.reason, content.note.clone());
            if self.written.contains_key(&key) {
                continue;
            }
            let path = self.api.events_path();
            if let Err(reason) = writes.spend("create", path.clone()) {
                tracing::debug!("an Event is dropped: {reason}");
                continue;
            }
            let event = self.event(&content, secret, now);
            let created = self.api.create_event(&event).await;
            writes.record_forbidden("create", &path, created.as_ref().err());
            match created {
                // Another replica creates the same Event under the same name.
                Err(error) if !error.is_conflict() => {
                    tracing::info!("an Event was not written: {error}");
                }
                _ => drop(self.written.insert(key, now)),
            }
        }
    }

    fn event(&self, content: &EventContent, secret: Option<&Secret>, now: Timestamp) -> Event {
        // With a signer of the cluster there is no Secret.
        let (kind, name) = match self.options.signer {
            None => ("Secret", &self.options.secret_name),
            Some(_) => ("Service", &self.options.service),
        };
        let mut hasher = DefaultHasher::new();
        let span = now.as_second() / AGAIN.as_secs();
        (content.reason, &content.note, span).hash(&mut hasher);
        let instance = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:016x}", hasher.finish())),
                namespace: Some(self.options.namespace.clone()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            type_: Some(if content.is_warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(content.reason.to_owned()),
            action: Some(content.action.to_owned()),
            note: Some(event_note(&content.note).to_owned()),
            regarding: Some(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some(kind.to_owned()),
                name: Some(name.clone()),
                namespace: Some(self.options.namespace.clone()),
                uid: secret.and_then(|secret| secret.metadata.uid.clone()),
                ..ObjectReference::default()
            }),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(instance.unwrap_or_else(|| self.options.install.clone())),
            ..Event::default()
        }
    }
}

const CONTROLLER: &str = "outrigger.io/webhook-certs";
/// Interval after which the same Event is written again, once by all replicas together.
const AGAIN: SignedDuration = SignedDuration::from_mins(10);
