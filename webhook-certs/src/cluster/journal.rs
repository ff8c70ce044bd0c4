//! News as Events on the CA's Secret.
//!
//! An Event about an object without a namespace would have to be in `default`; one about the
//! Secret is where the installation is, and so is the right to write it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::objects::Objects;
use super::writes::Writes;
use crate::news::News;
use crate::options::Options;

/// What was told, so that it is not told again and again.
pub(super) struct Journal<'a> {
    objects: &'a Objects,
    options: &'a Options,
    told: BTreeMap<(&'static str, String), Timestamp>,
    /// What is still to be told.
    pending: Vec<News>,
}

impl<'a> Journal<'a> {
    pub(super) fn new(objects: &'a Objects, options: &'a Options) -> Self {
        Self { objects, options, told: BTreeMap::new(), pending: Vec::new() }
    }

    /// Notes something that is to be told with the next [`Journal::flush`].
    pub(super) fn note(&mut self, news: impl IntoIterator<Item = News>) {
        self.pending.extend(news);
    }

    /// Tells what was noted. Whatever goes wrong with that is no harm to anything else: the log and
    /// the metrics say the same.
    pub(super) async fn flush(&mut self, secret: Option<&Secret>, writes: &mut Writes<'_>) {
        for news in std::mem::take(&mut self.pending) {
            let now = self.objects.clock.now();
            self.told.retain(|_, told| now.duration_since(*told) < AGAIN);
            let key = (news.reason, news.note.clone());
            if self.told.contains_key(&key) {
                continue;
            }
            let path = self.objects.events_path();
            if let Err(reason) = writes.spend("create", path.clone()) {
                tracing::debug!("an Event is left out: {reason}");
                continue;
            }
            let event = self.event(&news, secret, now);
            let created = self.objects.create_event(&event).await;
            writes.heed("create", &path, created.as_ref().err());
            match created {
                // Another replica tells the same under the same name.
                Err(error) if !error.is_conflict() => {
                    tracing::info!("Events are left out: {error}");
                }
                _ => drop(self.told.insert(key, now)),
            }
        }
    }

    fn event(&self, news: &News, secret: Option<&Secret>, now: Timestamp) -> Event {
        // With a signer of the cluster there is no Secret.
        let (kind, name) = match self.options.signer {
            None => ("Secret", &self.options.secret_name),
            Some(_) => ("Service", &self.options.service),
        };
        let mut hasher = DefaultHasher::new();
        let span = now.as_second() / AGAIN.as_secs();
        (news.reason, &news.note, span).hash(&mut hasher);
        let instance = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:016x}", hasher.finish())),
                namespace: Some(self.options.namespace.clone()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            type_: Some(if news.is_warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(news.reason.to_owned()),
            action: Some(news.action.to_owned()),
            note: Some(shortened(&news.note)),
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

/// The API server refuses notes that are longer.
fn shortened(note: &str) -> String {
    let end = (0..=note.len().min(LONGEST)).rev().find(|&end| note.is_char_boundary(end));
    note[..end.unwrap_or_default()].to_owned()
}

const CONTROLLER: &str = "outrigger.io/webhook-certs";
const LONGEST: usize = 1024;
/// The same is told again only after this, and by replicas together once.
const AGAIN: SignedDuration = SignedDuration::from_mins(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        let long = format!("{}ä", "a".repeat(LONGEST - 1));
        assert_eq!(shortened(&long), "a".repeat(LONGEST - 1));
    }
}
