//! The `ProxyConfig` resources of the cluster.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::followed::{Followed, Reading, Subject, follow};
use super::objects::Key;
use crate::settings::proxy_configs::{Origin, ProxyConfigResource, ProxyConfigs};
use crate::webhook::metrics::Metrics;

/// The resources, as far as they can be used.
#[derive(Debug, Default)]
pub(super) struct Resources {
    pub(super) usable: Arc<ProxyConfigs>,
    /// Why the others cannot be.
    refused: BTreeMap<Key, String>,
}

/// Keeps the resources for a revision current, for ever.
pub(super) async fn watch(
    client: Client,
    revision: String,
    followed: Arc<Followed<Resources>>,
    metrics: Arc<Metrics>,
) -> Infallible {
    let resource = ApiResource {
        group: "networking.istio.io".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "networking.istio.io/v1beta1".to_owned(),
        kind: "ProxyConfig".to_owned(),
        plural: "proxyconfigs".to_owned(),
    };
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let events = || watcher(api.clone(), watcher::Config::default());
    let reading = Reading {
        keep: Box::new(move |object| is_for(&revision, &object).then(|| read(&object))),
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

/// A resource without the label is for every revision.
fn is_for(revision: &str, object: &DynamicObject) -> bool {
    object.labels().get("istio.io/rev").is_none_or(|label| label == revision)
}

fn read(object: &DynamicObject) -> Result<ProxyConfigResource, String> {
    let created = object.creation_timestamp().map_or(Timestamp::MIN, |time| time.0);
    let namespace = object.namespace().unwrap_or_default();
    let origin = Origin { namespace, name: object.name_any(), created };
    ProxyConfigResource::parse(origin, object.data.get("spec").unwrap_or(&Value::Null))
}

/// Tells of what cannot be used, once.
fn tell(before: &Resources, now: &Resources, metrics: &Metrics) {
    metrics.proxy_configs_refused(now.refused.len());
    for (key, problem) in &now.refused {
        if before.refused.get(key) != Some(problem) {
            let (namespace, name) = key;
            tracing::warn!(namespace, name, problem, "ProxyConfig cannot be used");
        }
    }
}

const SUBJECT: Subject = Subject {
    resource: "proxyconfigs.networking.istio.io",
    without: "pods are injected without regard to ProxyConfig resources",
};
