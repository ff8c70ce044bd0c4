//! Cluster snapshot for a file's pods, with the data that the cluster's injector uses.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use injector::cluster::error::ClusterError;
use injector::cluster::{self, nodes};
use injector::inject::cluster_state::ClusterFacts;
use injector::kubernetes::label_selector;
use injector::kubernetes::native_sidecars::Kubelets;
use injector::settings::Settings;
use injector::settings::proxy_configs::ProxyConfigs;
use kube::Client;
use serde_json::Value;

use crate::Streams;

/// Parts of the snapshot to read.
#[derive(Debug)]
pub(super) struct Questions {
    /// True if the nodes decide about native sidecars.
    pub(super) nodes: bool,
    /// True if `ProxyConfig` resources apply.
    pub(super) proxy_configs: bool,
    /// The namespaces of the pods.
    pub(super) namespaces: BTreeSet<String>,
}

/// Snapshot of a cluster; empty by default.
#[derive(Debug, Default)]
pub(super) struct ClusterSnapshot {
    kubelets: Option<Kubelets>,
    /// Annotations by namespace.
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    proxy_configs: Option<ProxyConfigs>,
}

impl ClusterSnapshot {
    /// Reads the snapshot. Explains to the user the effect of each part that may not be read.
    pub(super) async fn ask(
        client: Client,
        questions: Questions,
        settings: &Settings,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Self> {
        let Questions { nodes, proxy_configs, mut namespaces } = questions;
        // A workload with any other namespace is rejected later, and the name must not become part
        // of a path.
        namespaces.retain(|name| label_selector::is_value(name));
        let mut known = Self::default();
        if nodes {
            let read = nodes::kubelets(client.clone()).await;
            known.kubelets = or_warning(read, "nodes", nodes::WITHOUT, streams)?;
        }
        if settings.process.openshift {
            known.namespaces = annotations(client.clone(), &namespaces, streams).await?;
        }
        if proxy_configs {
            namespaces.insert(settings.mesh.root_namespace.clone());
            let revision = settings.process.revision_name();
            let read = all_proxy_configs(client, &namespaces, revision, streams);
            known.proxy_configs = Some(read.await?);
        }
        Ok(known)
    }

    /// Returns the known cluster state for a pod.
    pub(super) fn facts(&self, namespace: &str, pod: &Value) -> ClusterFacts<'_> {
        let node = pod.pointer("/spec/nodeName").and_then(Value::as_str);
        let kubelets = self.kubelets.as_ref();
        ClusterFacts {
            namespace_annotations: self.namespaces.get(namespace),
            native_sidecars: kubelets.map(|kubelets| kubelets.native_sidecars(node)),
            proxy_configs: self.proxy_configs.as_ref(),
        }
    }
}

/// Returns the annotations of those namespaces that exist and may be read.
async fn annotations(
    client: Client,
    names: &BTreeSet<String>,
    streams: &mut Streams<'_>,
) -> anyhow::Result<BTreeMap<String, BTreeMap<String, String>>> {
    let mut known = BTreeMap::new();
    for name in names {
        let what = format!("namespace {name}");
        match cluster::namespaces::annotations_of(client.clone(), name).await {
            Err(error) if error.is_absent() => tell(&error, &what, USUAL_USER, streams),
            read => {
                let read = or_warning(read, &what, USUAL_USER, streams)?;
                known.extend(read.map(|annotations| (name.clone(), annotations)));
            }
        }
    }
    Ok(known)
}

/// Returns the `ProxyConfig` resources of the namespaces that may be read and are valid.
async fn all_proxy_configs(
    client: Client,
    namespaces: &BTreeSet<String>,
    revision: &str,
    streams: &mut Streams<'_>,
) -> anyhow::Result<ProxyConfigs> {
    let mut known = Vec::new();
    for namespace in namespaces {
        let read = cluster::proxy_configs::of_namespace(client.clone(), namespace, revision).await;
        // The resource type is not installed.
        if matches!(&read, Err(error) if error.is_absent()) {
            break;
        }
        let what = format!("proxyconfigs.networking.istio.io of namespace {namespace}");
        let Some((usable, refused)) = or_warning(read, &what, WITHOUT_RESOURCES, streams)? else {
            continue;
        };
        known.extend(usable);
        for (name, problem) in refused {
            streams.say(&format!(
                "warning: ProxyConfig {namespace}/{name} is invalid and ignored: {problem}"
            ));
        }
    }
    Ok(known.into_iter().collect())
}

/// Returns the result; `None` if access is denied, with an explanation to the user.
pub(super) fn or_warning<T>(
    read: Result<T, ClusterError>,
    what: &str,
    without: &str,
    streams: &mut Streams<'_>,
) -> anyhow::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.is_forbidden() => {
            tell(&error, what, without, streams);
            Ok(None)
        }
        Err(error) => Err(anyhow!(error).context(what.to_owned())),
    }
}

fn tell(error: &ClusterError, what: &str, without: &str, streams: &mut Streams<'_>) {
    streams.say(&format!("warning: {what}: {error}; {without}"));
}

const USUAL_USER: &str = "its proxies run as user and group 1337, regardless of its range";
const WITHOUT_RESOURCES: &str = "they are ignored";
