//! Kinds of objects with pods, by the names that kubectl knows.

use kube::api::{ApiResource, GroupVersionKind};

/// A kind that is a pod or has a pod template.
#[derive(Debug)]
pub(super) struct WorkloadKind {
    names: &'static [&'static str],
    group: &'static str,
    version: &'static str,
    pub(super) title: &'static str,
    /// Path of the pod template; empty for a pod.
    pub(super) template: &'static str,
}

impl WorkloadKind {
    pub(super) fn parse(word: &str) -> Result<&'static Self, String> {
        let known = KINDS.iter().find(|kind| kind.names.contains(&word));
        known.ok_or_else(|| {
            let names: Vec<_> = KINDS.iter().map(|kind| kind.names[0]).collect();
            format!("{word:?} is not a kind with pods; hint: use one of {}", names.join(", "))
        })
    }

    /// Returns the kind of a pod.
    pub(super) fn pod() -> &'static Self {
        &KINDS[0]
    }

    /// Returns the kinds whose templates make further pods, each template once.
    pub(super) fn with_templates() -> impl Iterator<Item = &'static Self> {
        // A ReplicaSet has the template of its Deployment; the pods of a Job exist.
        let later = ["Deployment", "StatefulSet", "DaemonSet", "CronJob"];
        KINDS.iter().filter(move |kind| later.contains(&kind.title))
    }

    /// Returns the resource of the API.
    pub(super) fn resource(&self) -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk(self.group, self.version, self.title))
    }
}

const TEMPLATE: &str = "/spec/template";

const KINDS: &[WorkloadKind] = &[
    WorkloadKind {
        names: &["pod", "pods", "po"],
        group: "",
        version: "v1",
        title: "Pod",
        template: "",
    },
    WorkloadKind {
        names: &["deployment", "deployments", "deploy", "deployments.apps", "deployment.apps"],
        group: "apps",
        version: "v1",
        title: "Deployment",
        template: TEMPLATE,
    },
    WorkloadKind {
        names: &["statefulset", "statefulsets", "sts"],
        group: "apps",
        version: "v1",
        title: "StatefulSet",
        template: TEMPLATE,
    },
    WorkloadKind {
        names: &["daemonset", "daemonsets", "ds"],
        group: "apps",
        version: "v1",
        title: "DaemonSet",
        template: TEMPLATE,
    },
    WorkloadKind {
        names: &["replicaset", "replicasets", "rs"],
        group: "apps",
        version: "v1",
        title: "ReplicaSet",
        template: TEMPLATE,
    },
    WorkloadKind {
        names: &["job", "jobs"],
        group: "batch",
        version: "v1",
        title: "Job",
        template: TEMPLATE,
    },
    WorkloadKind {
        names: &["cronjob", "cronjobs", "cj"],
        group: "batch",
        version: "v1",
        title: "CronJob",
        template: "/spec/jobTemplate/spec/template",
    },
];
