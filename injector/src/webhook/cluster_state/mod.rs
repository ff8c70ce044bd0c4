//! Cluster snapshot for reviews, kept by watches, so that hardly any review waits.
//!
//! The process is ready without it. A resource that cannot be watched is logged once and shown as a
//! metric, and pods are injected without it.

mod namespaces;
mod nodes;
pub(crate) mod outline;
mod proxy_configs;
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

/// Resources to watch.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Questions {
    /// True if the versions of the nodes decide on native sidecars.
    pub nodes: bool,
    /// True if namespaces decide on users, as on `OpenShift`.
    pub namespaces: bool,
    /// Revision of the control plane; `default` for the unnamed one.
    pub revision: String,
}

/// Cluster snapshot for all reviews.
#[derive(Debug, Default)]
pub struct ClusterWatch {
    kubelets: Option<Arc<Followed<Kubelets>>>,
    namespaces: Option<Namespaces>,
    proxy_configs: Option<Arc<Followed<Resources>>>,
}

impl ClusterWatch {
    /// Starts the watches, as tasks that do not end.
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

    /// Returns the cluster facts for a review's pod, by `deadline` at the latest.
    pub(super) async fn environment(
        &self,
        review: &Outline<'_>,
        deadline: Instant,
    ) -> PodEnvironment {
        let mut known = PodEnvironment::default();
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

/// Cluster facts for one pod.
#[derive(Debug, Default)]
pub(super) struct PodEnvironment {
    namespace_annotations: Option<Annotations>,
    native_sidecars: Option<bool>,
    proxy_configs: Option<Arc<ProxyConfigs>>,
}

impl PodEnvironment {
    pub(super) fn facts(&self) -> ClusterFacts<'_> {
        ClusterFacts {
            namespace_annotations: self.namespace_annotations.as_deref(),
            native_sidecars: self.native_sidecars,
            proxy_configs: self.proxy_configs.as_deref(),
        }
    }
}
