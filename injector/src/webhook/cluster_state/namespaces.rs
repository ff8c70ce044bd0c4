//! Annotations of the cluster's namespaces, in which `OpenShift` lists the allowed users of pods.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio::time::{Instant, timeout_at};

use super::watched::{Followed, Reading, WatchedResource, follow};
use crate::webhook::telemetry::metrics::Metrics;

/// Annotations of a namespace that begin with `openshift.io/sa.scc.`.
pub(super) type Annotations = Arc<BTreeMap<String, String>>;

/// Annotations by namespace.
pub(super) type ByName = BTreeMap<String, Annotations>;

/// Namespaces from a watch, and from the API server where the watch is behind.
#[derive(Debug)]
pub(super) struct Namespaces {
    api: Api<PartialObjectMeta<Namespace>>,
    followed: Arc<Followed<ByName>>,
}

impl Namespaces {
    pub(super) fn new(client: Client) -> Self {
        Self { api: Api::all(client), followed: Arc::default() }
    }

    /// Keeps the annotations up to date, for ever.
    pub(super) fn watch(&self, metrics: Arc<Metrics>) -> impl Future<Output = Infallible> + use<> {
        let api = self.api.clone();
        let events = move || watcher(api.clone(), watcher::Config::default());
        let reading = Reading {
            keep: Box::new(|namespace: PartialObjectMeta<Namespace>| Some(annotations(&namespace))),
            value: |known| {
                let known = known.iter();
                known.map(|((_, name), annotations)| (name.clone(), annotations.clone())).collect()
            },
            tell: |_, _, _| {},
        };
        follow(SUBJECT, events, reading, Arc::clone(&self.followed), metrics)
    }

    /// Returns the annotations of a namespace; `None` if they are not available in time.
    ///
    /// `OpenShift` writes them right after a namespace is created, and the first pods follow at
    /// once. If the watch does not show them yet, the API server is asked.
    pub(super) async fn annotations(&self, name: &str, deadline: Instant) -> Option<Annotations> {
        let watched = self.followed.latest(deadline).await.get(name).cloned();
        if watched.as_ref().is_some_and(|annotations| annotations.contains_key(UID_RANGE)) {
            return watched;
        }
        let deadline = deadline.min(Instant::now() + ONE_ANSWER);
        match timeout_at(deadline, self.api.get(name)).await {
            Ok(Ok(namespace)) => Some(annotations(&namespace)),
            Ok(Err(error)) => {
                tracing::debug!(namespace = name, %error, "reading the namespace failed");
                watched
            }
            Err(_) => watched,
        }
    }
}

fn annotations(namespace: &PartialObjectMeta<Namespace>) -> Annotations {
    let annotations = namespace.annotations().iter();
    let of_openshift = annotations.filter(|(key, _)| key.starts_with(PREFIX));
    Arc::new(of_openshift.map(|(key, value)| (key.clone(), value.clone())).collect())
}

const SUBJECT: WatchedResource = WatchedResource {
    resource: "namespaces",
    without: "proxies run as user and group 1337, regardless of the namespace's range",
};

const PREFIX: &str = "openshift.io/sa.scc.";
const UID_RANGE: &str = "openshift.io/sa.scc.uid-range";

/// Longest wait of a review for one namespace.
const ONE_ANSWER: Duration = Duration::from_secs(1);
