//! `ProxyConfig` resources of the cluster.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use kube::Client;
use kube::runtime::watcher;

use super::watched::{Followed, Reading, WatchedResource, follow};
use crate::cluster::proxy_configs;
use crate::cluster::store::Key;
use crate::settings::proxy_configs::ProxyConfigs;
use crate::webhook::telemetry::metrics::Metrics;

/// Valid resources, and the errors of the invalid ones.
#[derive(Debug, Default)]
pub(super) struct Resources {
    pub(super) usable: Arc<ProxyConfigs>,
    /// Errors of the invalid resources.
    refused: BTreeMap<Key, String>,
}

/// Keeps the resources of a revision up to date, for ever.
pub(super) async fn watch(
    client: Client,
    revision: String,
    followed: Arc<Followed<Resources>>,
    metrics: Arc<Metrics>,
) -> Infallible {
    let api = proxy_configs::api(client);
    let events = || watcher(api.clone(), watcher::Config::default());
    let reading = Reading {
        keep: Box::new(move |object| {
            proxy_configs::is_for(&revision, &object).then(|| proxy_configs::read(&object))
        }),
        value: |known| {
            let mut refused = BTreeMap::new();
            let usable = known.iter().filter_map(|(key, read)| match read {
                Ok(resource) => Some(resource.clone()),
                Err(problem) => {
                    refused.insert(key.clone(), problem.clone());
                    None
                }
            });
            Resources { usable: Arc::new(usable.collect()), refused }
        },
        tell,
    };
    follow(SUBJECT, events, reading, followed, metrics).await
}

/// Counts the invalid resources, and logs each new error.
fn tell(before: &Resources, now: &Resources, metrics: &Metrics) {
    metrics.proxy_configs_refused(now.refused.len());
    for (key, problem) in &now.refused {
        if before.refused.get(key) != Some(problem) {
            let (namespace, name) = key;
            tracing::warn!(namespace, name, problem, "invalid ProxyConfig is ignored");
        }
    }
}

const SUBJECT: WatchedResource = WatchedResource {
    resource: "proxyconfigs.networking.istio.io",
    without: "pods are injected without ProxyConfig resources",
};
