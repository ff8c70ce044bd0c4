//! What reviews are told of the cluster: watched beforehand, so that hardly any review waits.
//!
//! None of it is needed for being ready: what cannot be watched is told of once, in the log and as
//! a metric, and pods are injected without it.

mod namespaces;
mod nodes;
pub(crate) mod outline;
mod proxy_configs;
mod store;
mod watched;

use std::sync::Arc;

use kube::Client;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::namespaces::{Annotations, Namespaces};
use self::outline::Outline;
use self::proxy_configs::Resources;
use self::watched::Followed;
use super::telemetry::metrics::Metrics;
use crate::inject::cluster_state::ClusterFacts;
use crate::kubernetes::native_sidecars::Kubelets;
use crate::settings::proxy_configs::ProxyConfigs;

/// What is asked of the cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Questions {
    /// Whether the nodes decide on native sidecars.
    pub nodes: bool,
    /// Whether namespaces decide on users, as on `OpenShift`.
    pub namespaces: bool,
    /// The control plane's revision, `default` for the one without a name.
    pub revision: String,
}

/// What is known of the cluster, for all reviews.
#[derive(Debug, Default)]
pub struct Surroundings {
    kubelets: Option<Arc<Followed<Kubelets>>>,
    namespaces: Option<Namespaces>,
    proxy_configs: Option<Arc<Followed<Resources>>>,
}

impl Surroundings {
    /// Begins to watch: tasks that do not end.
    pub(super) fn watch<E: Send + 'static>(
        client: &Client,
        questions: Questions,
        metrics: &Arc<Metrics>,
        upkeep: &mut JoinSet<E>,
    ) -> Self {
        let kubelets = questions.nodes.then(|| {
            let followed = Arc::default();
            let watch = nodes::watch(client.clone(), Arc::clone(&followed), Arc::clone(metrics));
            upkeep.spawn(async move { match watch.await {} });
            followed
        });
        let namespaces = questions.namespaces.then(|| {
            let namespaces = Namespaces::new(client.clone());
            let watch = namespaces.watch(Arc::clone(metrics));
            upkeep.spawn(async move { match watch.await {} });
            namespaces
        });
        let proxy_configs = Arc::default();
        let watch = proxy_configs::watch(
            client.clone(),
            questions.revision,
            Arc::clone(&proxy_configs),
            Arc::clone(metrics),
        );
        upkeep.spawn(async move { match watch.await {} });
        Self { kubelets, namespaces, proxy_configs: Some(proxy_configs) }
    }

    /// Returns the facts of the cluster on a review's pod, by `deadline` at the latest.
    pub(super) async fn of(&self, review: &Outline<'_>, deadline: Instant) -> Known {
        let mut known = Known::default();
        if let Some(followed) = &self.proxy_configs {
            known.proxy_configs = Some(Arc::clone(&followed.latest(deadline).await.usable));
        }
        if let Some(followed) = &self.kubelets {
            let kubelets = followed.latest(deadline).await;
            known.native_sidecars = Some(kubelets.native_sidecars(review.node().as_deref()));
        }
        if let Some(namespaces) = &self.namespaces {
            let annotations = namespaces.annotations(&review.namespace, deadline);
            known.namespace_annotations = annotations.await;
        }
        known
    }
}

/// What is known of one pod's surroundings.
#[derive(Debug, Default)]
pub(super) struct Known {
    namespace_annotations: Option<Annotations>,
    native_sidecars: Option<bool>,
    proxy_configs: Option<Arc<ProxyConfigs>>,
}

impl Known {
    pub(super) fn facts(&self) -> ClusterFacts<'_> {
        ClusterFacts {
            namespace_annotations: self.namespace_annotations.as_deref(),
            native_sidecars: self.native_sidecars,
            proxy_configs: self.proxy_configs.as_deref(),
        }
    }
}
