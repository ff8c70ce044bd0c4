//! State of the watch of one kind.

use kube::runtime::watcher::{self, Event};
use kube_access::with_causes;

use super::watched::Watched;
use crate::event::{ObjectKey, Update};
use crate::manifest::{Manifest, ObjectDefaults};

/// Reads the events of a watch.
pub(super) struct Watching<M: Manifest> {
    defaults: ObjectDefaults,
    /// Objects of the list in progress.
    listing: Vec<M::Object>,
    is_failing: bool,
}

impl<M: Manifest> Watching<M> {
    pub(super) fn new(defaults: ObjectDefaults) -> Self {
        Self { defaults, listing: Vec::new(), is_failing: false }
    }

    /// Returns the update that an event completes. The pages of a list become one update.
    pub(super) fn read(
        &mut self,
        event: watcher::Result<Event<Watched<M>>>,
    ) -> Option<Update<M::Object>> {
        match event {
            Ok(Event::Init) => {
                self.listing.clear();
                None
            }
            Ok(Event::InitApply(watched)) => {
                let (_, object) = self.convert(watched);
                self.listing.extend(object);
                None
            }
            Ok(Event::InitDone) => {
                let listed = std::mem::take(&mut self.listing);
                tracing::info!(resource = M::PLURAL, objects = listed.len(), "watching");
                self.is_failing = false;
                Some(Update::Replace(listed))
            }
            Ok(Event::Apply(watched)) => {
                let (key, object) = self.convert(watched);
                Some(object.map_or(Update::Delete(key), Update::Apply))
            }
            Ok(Event::Delete(watched)) => Some(Update::Delete(watched.key())),
            Err(error) => {
                self.report(&error);
                None
            }
        }
    }

    /// Converts an object. One that is invalid or of no use counts as absent.
    fn convert(&self, watched: Watched<M>) -> (ObjectKey, Option<M::Object>) {
        let key = watched.key();
        let object = watched.convert(&self.defaults).unwrap_or_else(|error| {
            tracing::warn!("{error}; the mesh does not use it");
            None
        });
        (key, object)
    }

    /// Logs a failure once, until a list succeeds again.
    fn report(&mut self, error: &watcher::Error) {
        let resource = M::PLURAL;
        let text = with_causes(error);
        // Connections end now and then; a list shows whether there is an error.
        let is_end =
            matches!(error, watcher::Error::WatchFailed(_) | watcher::Error::WatchError(_));
        if is_end || self.is_failing {
            tracing::debug!(resource, error = text, "watch ended");
        } else {
            self.is_failing = true;
            tracing::warn!(resource, error = text, "watch failed; the last known objects stay");
        }
    }
}
