//! Configuration from `ConfigMap`s, watched.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client};
use kube_access::with_causes;

use super::Configuration;
use crate::sources::config_maps::{ConfigMapStates, ConfigMaps, Slot};

impl ConfigMaps {
    /// Passes the documents to `configuration` at every change, for ever.
    ///
    /// The watches select the two names only, because the permissions cover no others.
    pub async fn watch(self, client: Client, configuration: Arc<Configuration>) -> Infallible {
        let api: Api<ConfigMap> = Api::namespaced(client, &self.namespace);
        let events = |slot: Slot| {
            let config =
                watcher::Config::default().fields(&format!("metadata.name={}", self.name(slot)));
            watch(api.clone(), config).default_backoff().map(move |event| (slot, event))
        };
        let mut events = Box::pin(stream::select(events(Slot::Sidecar), events(Slot::Mesh)));
        let mut seen = ConfigMapStates::default();
        let mut last = Ok(None);
        loop {
            let Some((slot, event)) = events.next().await else {
                unreachable!("a watcher tries again for ever");
            };
            self.note(&mut seen, slot, event);
            // One command often applies both maps: wait until both have settled.
            while let Ok(Some((slot, event))) = tokio::time::timeout(SETTLE, events.next()).await {
                self.note(&mut seen, slot, event);
            }
            let now = self.texts(&seen);
            if now == last {
                continue;
            }
            match &now {
                Ok(None) => {}
                // `offer` logs rejections; the last valid settings stay in use.
                Ok(Some(texts)) => drop(configuration.offer(texts)),
                Err(problem) => configuration.refuse(problem),
            }
            last = now;
        }
    }

    fn note(
        &self,
        seen: &mut ConfigMapStates,
        slot: Slot,
        event: Result<Event<ConfigMap>, watcher::Error>,
    ) {
        match event {
            Ok(event) => seen.apply(slot, event),
            Err(error) => {
                let map = self.full_name(slot);
                let error = with_causes(&error);
                tracing::warn!(config_map = map, error, "watch failed; retrying");
            }
        }
    }
}

/// Time for which the maps must stay the same.
const SETTLE: Duration = Duration::from_millis(100);
