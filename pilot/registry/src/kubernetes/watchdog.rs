//! Watchdog of the watches: compares the index with lists of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use kube_access::with_causes;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::PAGE;
use super::watched::Watched;
use crate::event::ObjectKey;
use crate::index::{Index, Stored};
use crate::manifest::{
    Manifest, NamespaceManifest, NodeManifest, ObjectDefaults, PodManifest, ServiceManifest,
    SliceManifest,
};

/// Index that the events of watches keep up to date.
pub trait Audited: Send + Sync {
    /// Asks the index a question. `None` if there is no index any more.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Index) -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send;

    /// Counts objects of a kind that the index has otherwise than the API server.
    fn count(&self, kind: &'static str, objects: usize);
}

/// Comparison of the index with the API server's lists, time after time.
#[derive(Clone, Debug)]
pub struct Watchdog<A> {
    /// The index.
    pub index: A,
    /// Time between two comparisons.
    pub period: Duration,
    /// Time in which the watches deliver each change. A dead connection shows after half a minute.
    pub settling: Duration,
}

impl<A> Watchdog<A> {
    /// Watchdog that compares every ten minutes.
    pub fn new(index: A) -> Self {
        Self { index, period: PERIOD, settling: SETTLING }
    }
}

impl<A: Audited> Watchdog<A> {
    /// Returns when some object differs.
    pub(super) async fn drift(&self, client: &Client, defaults: &ObjectDefaults) {
        let mut has_drift = false;
        while !has_drift {
            sleep(self.period).await;
            if !self.index.ask(Index::is_listed).await.unwrap_or_default() {
                continue;
            }
            has_drift |= self.compare::<NamespaceManifest>(client, defaults).await;
            has_drift |= self.compare::<NodeManifest>(client, defaults).await;
            has_drift |= self.compare::<PodManifest>(client, defaults).await;
            has_drift |= self.compare::<SliceManifest>(client, defaults).await;
            has_drift |= self.compare::<ServiceManifest>(client, defaults).await;
        }
    }

    /// Compares the objects of a kind. Returns true if some differ.
    async fn compare<M>(&self, client: &Client, defaults: &ObjectDefaults) -> bool
    where
        M: Manifest + Clone + Debug + DeserializeOwned + Send + 'static,
        M::Object: Stored + Send + 'static,
    {
        let drift = match self.confirmed::<M>(client, defaults).await {
            Ok(drift) => drift,
            Err(error) => {
                let error = with_causes(&error);
                tracing::warn!(resource = M::PLURAL, error, "the index was not compared");
                return false;
            }
        };
        if drift.is_empty() {
            return false;
        }
        self.index.count(M::KIND, drift.len());
        let named: Vec<_> = drift.iter().take(NAMED).map(ToString::to_string).collect();
        tracing::error!(
            kind = M::KIND,
            objects = drift.len(),
            first = named.join(", "),
            "the watch has missed changes of objects"
        );
        true
    }

    /// Objects that differ although the watch had the time to deliver them.
    async fn confirmed<M>(
        &self,
        client: &Client,
        defaults: &ObjectDefaults,
    ) -> kube::Result<BTreeSet<ObjectKey>>
    where
        M: Manifest + Clone + Debug + DeserializeOwned + Send + 'static,
        M::Object: Stored + Send + 'static,
    {
        let first = self.different::<M>(client, defaults).await?;
        if first.is_empty() {
            return Ok(BTreeSet::new());
        }
        sleep(self.settling).await;
        let second = self.different::<M>(client, defaults).await?;
        // An object that changed meanwhile may be on its way again.
        let same = second.into_iter().filter(|(key, version)| first.get(key) == Some(version));
        Ok(same.map(|(key, _)| key).collect())
    }

    /// Objects of a list that the index has otherwise, with their versions, and `None` for those
    /// of the index that the API server does not have.
    async fn different<M>(
        &self,
        client: &Client,
        defaults: &ObjectDefaults,
    ) -> kube::Result<BTreeMap<ObjectKey, Option<String>>>
    where
        M: Manifest + Clone + Debug + DeserializeOwned + Send + 'static,
        M::Object: Stored + Send + 'static,
    {
        let api: Api<Watched<M>> = Api::all(client.clone());
        let mut different = BTreeMap::new();
        let keys = self.index.ask(Index::keys::<M::Object>).await;
        let mut unlisted = keys.unwrap_or_default();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let list = api.list(&params).await?;
            let mut objects = Vec::new();
            for watched in list.items {
                let version = watched.version();
                // The watch has reported invalid objects.
                let Ok(Some(object)) = watched.convert(defaults) else { continue };
                unlisted.remove(&object.key());
                objects.push((object, version));
            }
            let page = self.index.ask(move |index| {
                let different = objects.into_iter().filter(|(object, _)| !index.has(object));
                different.map(|(object, version)| (object.key(), version)).collect::<Vec<_>>()
            });
            different.extend(page.await.unwrap_or_default());
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        different.extend(unlisted.into_iter().map(|key| (key, None)));
        Ok(different)
    }
}

const PERIOD: Duration = Duration::from_secs(600);
const SETTLING: Duration = Duration::from_secs(60);

/// Objects that a message names.
const NAMED: usize = 10;
