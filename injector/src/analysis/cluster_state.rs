//! State of a cluster, as far as the analysis needs it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::message::MessageOrigin;
use crate::kubernetes::webhook_configuration::HookError;
use crate::report::inspection::{Injector, Injectors};

/// Objects of a cluster and of files.
#[derive(Debug)]
pub struct ClusterState<'a> {
    /// Webhook configurations and injectors.
    pub injectors: Injectors<'a>,
    /// Origins of the webhook configurations by name.
    pub webhooks: &'a BTreeMap<String, MessageOrigin>,
    /// Webhook configurations that cannot be parsed.
    pub invalid_webhooks: &'a [HookError],
    /// Namespaces by name.
    pub namespaces: &'a BTreeMap<String, AnalyzedNamespace>,
    /// Pods, and pod templates of workloads.
    pub pods: &'a [AnalyzedPod],
    /// Services of webhooks that exist: namespace and name.
    pub services: &'a BTreeSet<(String, String)>,
    /// Host names of webhooks that DNS does not resolve, with the error.
    pub unresolved: &'a BTreeMap<String, String>,
    /// Injector of all pods, if no cluster is known.
    pub built_in: Option<&'a Injector>,
    /// Namespace of the control plane.
    pub control_plane: &'a str,
}

/// A namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AnalyzedNamespace {
    /// Origin.
    pub origin: MessageOrigin,
    /// Labels, as an object or null.
    pub labels: Value,
}

/// A pod or a pod template.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AnalyzedPod {
    /// Origin: the pod or its workload.
    pub origin: MessageOrigin,
    /// Pod with its namespace.
    pub pod: Value,
    /// True for a pod of the cluster.
    pub running: bool,
}

impl ClusterState<'_> {
    /// Returns the labels of a namespace.
    pub(super) fn labels(&self, namespace: &str) -> Value {
        match self.namespaces.get(namespace) {
            Some(namespace) => namespace.labels.clone(),
            None => json!({"kubernetes.io/metadata.name": namespace}),
        }
    }
}
