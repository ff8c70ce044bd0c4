//! A pod that a command is about, named by itself or by its workload.

use std::fmt;

use anyhow::{Context as _, anyhow, bail, ensure};
use injector::cluster::error::ClusterError;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{DynamicObject, ListParams};
use kube::core::Selector;
use kube::{Api, Client, ResourceExt};
use kube_access::names;

use crate::cluster;
use crate::workload_kind::WorkloadKind;

/// A pod, or a workload whose pods are alike.
#[derive(Clone, Debug)]
pub(super) struct PodTarget {
    pub(super) kind: &'static WorkloadKind,
    /// `NAME[.NAMESPACE]`.
    name: String,
}

/// A pod of the cluster.
#[derive(Clone, Debug)]
pub(super) struct NamedPod {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl PodTarget {
    /// Parses `[TYPE/]NAME[.NAMESPACE]`. Other text never becomes a part of a URL.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once('/').unwrap_or(("pod", text));
        let kind = WorkloadKind::parse(kind)?;
        if cluster::name_and_namespace(name, "").0.is_empty() {
            return Err("no name; hint: deployment/NAME, or a pod's NAME".to_owned());
        }
        Ok(Self { kind, name: names::subdomain(name)? })
    }

    /// Returns name and namespace. The namespace is empty if neither the target nor the flag has one.
    pub(super) fn name_and_namespace<'a>(&'a self, namespace: &'a str) -> (&'a str, &'a str) {
        cluster::name_and_namespace(&self.name, namespace)
    }

    /// Returns the pod; of a workload, the first one by name that runs.
    pub(super) async fn pod(&self, client: &Client, namespace: &str) -> anyhow::Result<NamedPod> {
        let (name, namespace) = self.name_and_namespace(namespace);
        let namespace = if namespace.is_empty() { client.default_namespace() } else { namespace };
        let name = match self.kind.template {
            "" => name.to_owned(),
            _ => running_pod(client, self.kind, namespace, name).await?,
        };
        Ok(NamedPod { namespace: namespace.to_owned(), name })
    }
}

impl PodTarget {
    /// Returns the pod of a target that names one itself, for a command without a cluster.
    pub(super) fn without_cluster(&self, namespace: &str) -> anyhow::Result<NamedPod> {
        let (name, namespace) = self.name_and_namespace(namespace);
        ensure!(
            self.kind.template.is_empty(),
            "{} {name}: without a cluster, the pods of a workload are not known; hint: name the pod",
            self.kind.title
        );
        ensure!(!namespace.is_empty(), "pod {name}: no namespace; hint: {name}.NAMESPACE");
        Ok(NamedPod { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for NamedPod {
    /// Writes `NAME.NAMESPACE`, as control planes name a proxy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.name, self.namespace)
    }
}

/// Returns the first pod of the workload that runs.
async fn running_pod(
    client: &Client,
    kind: &WorkloadKind,
    namespace: &str,
    name: &str,
) -> anyhow::Result<String> {
    let title = || format!("{} {namespace}/{name}", kind.title);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind.resource());
    let workload = api.get(name).await.map_err(ClusterError::from).with_context(title)?;
    let Some(selector) = workload.data.pointer("/spec/selector") else {
        bail!("{}: no selector of pods; hint: name one of its pods", title());
    };
    let selector: LabelSelector = serde_json::from_value(selector.clone()).with_context(title)?;
    let selector = Selector::try_from(selector).with_context(title)?;
    let running = ListParams::default().labels_from(&selector).fields("status.phase=Running");
    let pods = Api::<Pod>::namespaced(client.clone(), namespace).list(&running).await;
    let pods = pods
        .map_err(ClusterError::from)
        .with_context(|| format!("{}: listing its pods", title()))?;
    let staying = pods.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let first = staying.map(ResourceExt::name_any).min();
    first.ok_or_else(|| anyhow!("{}: none of its pods runs", title()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_a_kind_with_pods_and_a_name() {
        for (text, title, named) in [
            ("web-1", "Pod", ("web-1", "")),
            ("web-1.shop", "Pod", ("web-1", "shop")),
            ("deploy/web.shop", "Deployment", ("web", "shop")),
            ("sts/db", "StatefulSet", ("db", "")),
        ] {
            let target = PodTarget::parse(text).unwrap();
            assert_eq!(
                (target.kind.title, target.name_and_namespace("")),
                (title, named),
                "{text}"
            );
        }
        for text in ["", "deploy/", "service/web", "deploy/web/x", "deploy/..", "a b", ".shop"] {
            assert!(PodTarget::parse(text).is_err(), "{text}");
        }
    }
}
