//! `istioctl experimental check-inject`: the injection decision for a pod, with reasons.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, bail};
use clap::{ArgGroup, Args};
use injector::cluster::error::ClusterError;
use injector::cluster::namespaces;
use injector::inject::reinject::status::InjectionStatus;
use injector::report::explanation::{Explanation, explain};
use injector::report::inspection::Injectors;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::{Cluster, ClusterClient};
use crate::output::Form;
use crate::table::table;
use crate::{Failure, Streams, cluster, output};

/// Show which webhooks inject a pod, and why the others do not
///
/// The command evaluates the selectors of each webhook configuration, then the injector's decision
/// with the configuration of its revision. For an existing pod it shows the decision on a new pod
/// in its place.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("pod").required(true)))]
pub(super) struct CheckInject {
    /// A pod, or a workload as deployment/NAME, in the given namespace or as NAME.NAMESPACE
    #[arg(value_name = "[TYPE/]NAME[.NAMESPACE]", group = "pod")]
    target: Option<String>,
    /// Labels of a pod, which need not exist
    #[arg(short, long, value_name = "KEY=VALUE,...", group = "pod")]
    labels: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Form,
}

impl CheckInject {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let given = self.given(cluster_client.namespace).map_err(Failure::Usage)?;
        let explained = cluster::ask(cluster_client.flags, async |Cluster { client, name }| {
            explained(&given, client, cluster_client, streams).await.context(name)
        });
        let (explanations, pod) = explained.map_err(Failure::from_error)?;
        let text = match self.output {
            Form::Table => rows(&explanations),
            Form::Json => format!("{:#}\n", json!(explanations)),
        };
        output::write(streams.output, &text).map_err(Failure::from_error)?;
        conclude(&explanations, given.is_running().then_some(&pod), streams);
        Ok(())
    }

    fn given(&self, namespace: &str) -> Result<Given, String> {
        if let Some(labels) = &self.labels {
            let labels = read_labels(labels)?;
            return Ok(Given::Labels { labels, namespace: namespace.to_owned() });
        }
        let target = self.target.as_deref().unwrap_or_default();
        let (kind, rest) = target.split_once('/').unwrap_or(("pod", target));
        let kind = WorkloadKind::read(kind)?;
        let (name, namespace) = cluster::name_and_namespace(rest, namespace);
        if name.is_empty() {
            let hint = "deployment/NAME, or a pod's NAME";
            return Err(format!("error: {target:?}: no name; hint: {hint}"));
        }
        Ok(Given::Object { kind, name: name.to_owned(), namespace: namespace.to_owned() })
    }
}

/// Returns every webhook's decision on the pod, and the pod.
async fn explained(
    given: &Given,
    client: Client,
    cluster_client: ClusterClient<'_>,
    streams: &mut Streams<'_>,
) -> anyhow::Result<(Vec<Explanation>, Value)> {
    let (namespace, pod) = given.read(&client).await?;
    let labels = namespaces::labels_of(client.clone(), &namespace).await;
    let labels = labels.with_context(|| format!("namespace {namespace}"))?;
    let configurations = cluster::configurations(&client, streams).await?;
    let known =
        cluster::injectors(&client, cluster_client.control_plane, &configurations, streams).await;
    let injectors = Injectors { configurations: &configurations, known: &known };
    Ok((explain(&injectors, &labels, &pod), pod))
}

/// Prints the conclusions beside the table.
fn conclude(explanations: &[Explanation], running: Option<&Value>, streams: &mut Streams<'_>) {
    let injecting = explanations.iter().filter(|one| one.injected).count();
    if injecting > 1 {
        streams.say("ERROR: multiple webhooks will inject, which can lead to errors");
    }
    let Some(pod) = running else { return };
    match (InjectionStatus::from_pod(pod), injecting) {
        (None, 1..) => streams.say("note: the pod runs without a sidecar; a new one would have it"),
        (Some(earlier), 0) => streams.say(&format!(
            "note: the pod has a sidecar of revision {}; a new one would have none",
            earlier.revision()
        )),
        (None, 0) | (Some(_), _) => {}
    }
}

fn rows(explanations: &[Explanation]) -> String {
    let row = |one: &Explanation| {
        let mark = if one.injected { "✔" } else { "✘" };
        [one.webhook.clone(), one.revision.clone(), mark.to_owned(), one.reason.clone()]
    };
    let rows: Vec<_> = explanations.iter().map(row).collect();
    table(&["WEBHOOK", "REVISION", "INJECTED", "REASON"], &rows)
}

/// Object of the check.
enum Given {
    Labels { labels: BTreeMap<String, String>, namespace: String },
    Object { kind: &'static WorkloadKind, name: String, namespace: String },
}

impl Given {
    fn is_running(&self) -> bool {
        matches!(self, Self::Object { kind, .. } if kind.template.is_empty())
    }

    /// Reads the namespace and the pod or pod template.
    async fn read(&self, client: &Client) -> anyhow::Result<(String, Value)> {
        let or_default = |namespace: &str| match namespace {
            "" => client.default_namespace().to_owned(),
            given => given.to_owned(),
        };
        match self {
            Self::Labels { labels, namespace } => {
                let namespace = or_default(namespace);
                let metadata = json!({"labels": labels, "namespace": namespace});
                Ok((namespace, json!({"metadata": metadata, "spec": {"containers": []}})))
            }
            Self::Object { kind, name, namespace } => {
                let namespace = or_default(namespace);
                let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.title);
                let resource = ApiResource::from_gvk(&gvk);
                let api: Api<DynamicObject> =
                    Api::namespaced_with(client.clone(), &namespace, &resource);
                let object = api.get(name).await.map_err(ClusterError::from);
                let object =
                    object.with_context(|| format!("{} {namespace}/{name}", kind.title))?;
                let mut object = json!(object);
                let Some(template) = object.pointer_mut(kind.template) else {
                    bail!("{} {namespace}/{name}: no {}", kind.title, kind.template);
                };
                let mut pod = template.take();
                pod["metadata"]["namespace"] = namespace.clone().into();
                Ok((namespace, pod))
            }
        }
    }
}

/// A kind that is a pod or has a pod template.
struct WorkloadKind {
    names: &'static [&'static str],
    group: &'static str,
    version: &'static str,
    title: &'static str,
    /// Path of the pod template.
    template: &'static str,
}

impl WorkloadKind {
    fn read(word: &str) -> Result<&'static Self, String> {
        let known = KINDS.iter().find(|kind| kind.names.contains(&word));
        known.ok_or_else(|| {
            let names: Vec<_> = KINDS.iter().map(|kind| kind.names[0]).collect();
            format!(
                "error: {word:?} is not a kind with pods; hint: use one of {}",
                names.join(", ")
            )
        })
    }
}

fn read_labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let label = |pair: &str| match pair.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(anyhow!("error: --labels {text:?}: {pair:?} is not KEY=VALUE").to_string()),
    };
    text.split(',').map(label).collect()
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

const EXAMPLES: &str = "\
Examples:
  istioctl x check-inject web-6f7c9d5b8-abcde -n shop
  istioctl x check-inject deployment/web.shop
  istioctl x check-inject -n shop -l app=web,istio.io/rev=canary";
