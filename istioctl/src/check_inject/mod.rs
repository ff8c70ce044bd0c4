//! `istioctl experimental check-inject`: the injection decision for a pod, with reasons.

mod pictures;
#[cfg(test)]
mod reference;
mod report;
mod target;

use std::collections::BTreeMap;

use anyhow::Context;
use clap::{ArgGroup, Args};
use injector::cluster::namespaces;
use injector::report::explanation::explain;
use injector::report::inspection::Injectors;
use kube::Client;
use serde_json::{Value, json};

use self::report::CheckReport;
use self::target::{CheckedPods, NAME_LABEL, Target};
use crate::cluster::{Cluster, ClusterClient};
use crate::inputs::InputFlags;
use crate::output::{Form, PictureForm};
use crate::pod_target::PodTarget;
use crate::{Failure, Streams, cluster, output};

/// Show which webhooks inject a pod, and why the others do not
///
/// The command evaluates the selectors and match conditions of each webhook entry, then the
/// injector's decision with the configuration of its revision. For an existing pod it shows the
/// decision on a new pod in its place. Below the webhooks it lists the containers that a new pod
/// would get.
///
/// With --filename, it checks the pods and workloads of files that are not applied yet. A
/// Namespace in the files replaces that of the cluster.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("filename", |it| it.required(false)))]
#[command(group(ArgGroup::new("pod").required(true).args(["target", "labels", "selector", "filename"])))]
pub(super) struct CheckInject {
    /// A pod, or a workload as deployment/NAME, as NAME.NAMESPACE, or NAME with -n
    #[arg(value_name = "[TYPE/]NAME[.NAMESPACE]", value_parser = PodTarget::parse)]
    target: Option<PodTarget>,
    /// Labels of a pod, which need not exist
    #[arg(short, long, value_name = "KEY=VALUE,...")]
    labels: Option<String>,
    /// The pods of the namespace with these labels, by kubectl's selectors such as
    /// `app in (web,api),!canary`
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// With --selector, the pods of all namespaces
    #[arg(
        short = 'A',
        long,
        requires = "selector",
        // A missing selector is no error for clap beside another argument of its group.
        conflicts_with_all = ["namespace", "target", "labels", "filename"]
    )]
    all_namespaces: bool,
    #[command(flatten)]
    files: InputFlags,
    /// Show the changes to each pod as a unified diff
    #[arg(long, conflicts_with = "output")]
    diff: bool,
    /// Output format
    #[arg(short, long, value_name = "FORM", value_enum, default_value = "table")]
    output: PictureForm,
}

impl CheckInject {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let target = self.target(cluster_client.namespace, streams)?;
        let reports = cluster::ask(cluster_client.flags, async |Cluster { client, name }| {
            checked(target, client, cluster_client, streams).await.context(name)
        });
        let reports = reports.map_err(Failure::from_error)?;
        let objects = || reports.iter().map(CheckReport::json).collect();
        let text = match self.output {
            PictureForm::Table if self.diff => reports.iter().map(CheckReport::diff).collect(),
            PictureForm::Table => {
                let titled = self.selector.is_some();
                let tables = reports.iter().map(|report| report.table(titled));
                Ok(tables.collect::<Vec<_>>().join("\n"))
            }
            PictureForm::Json => Form::Json.render(&objects()),
            PictureForm::Yaml => Form::Yaml.render(&objects()),
            PictureForm::Mermaid => Ok(pictures::mermaid(&reports)),
            PictureForm::Svg => Ok(pictures::svg(&reports)),
        };
        let text = text.map_err(Failure::from_error)?;
        output::write(streams.output, &text).map_err(Failure::from_error)?;
        for message in reports.iter().flat_map(CheckReport::messages) {
            streams.say(&message);
        }
        Ok(())
    }

    fn target(&self, namespace: &str, streams: &mut Streams<'_>) -> Result<Target, Failure> {
        if let Some(selector) = &self.selector {
            let (selector, everywhere) = (selector.clone(), self.all_namespaces);
            return Ok(Target::Selector { selector, everywhere });
        }
        if let Some(labels) = &self.labels {
            return Target::parse_labels(labels).map_err(Failure::Usage);
        }
        if let Some(target) = &self.target {
            return Ok(Target::object(target, namespace));
        }
        let files = self.files.read_only(streams).map_err(Failure::Errors)?;
        let pods = CheckedPods::parse(&files, self.files.pod_templates());
        pods.map(Target::Files).map_err(Failure::Errors)
    }
}

/// Returns every webhook's decision on the pods.
async fn checked(
    target: Target,
    client: Client,
    cluster_client: ClusterClient<'_>,
    streams: &mut Streams<'_>,
) -> anyhow::Result<Vec<CheckReport>> {
    let namespace = match cluster_client.namespace {
        "" => client.default_namespace().to_owned(),
        namespace => namespace.to_owned(),
    };
    let of_files = matches!(target, Target::Files(_));
    let CheckedPods { pods, mut namespaces } = target.read(&client, &namespace, streams).await?;
    for namespace in pods.iter().map(|checked| &checked.object.namespace) {
        if !namespaces.contains_key(namespace) {
            let labels = labels_of(&client, namespace, of_files, streams).await?;
            namespaces.insert(namespace.clone(), labels);
        }
    }
    let configurations = cluster::configurations(&client, streams).await?;
    let known =
        cluster::injectors(&client, cluster_client.control_plane, &configurations, streams).await;
    let injectors = Injectors { configurations: &configurations, known: &known };
    let report = |checked: target::CheckedPod| {
        let labels = &namespaces[&checked.object.namespace];
        let webhooks = explain(&injectors, labels, &checked.pod);
        CheckReport { webhooks, namespace_labels: labels.clone(), checked }
    };
    Ok(pods.into_iter().map(report).collect())
}

/// Returns the labels of a namespace. The namespace of a file need not exist yet.
async fn labels_of(
    client: &Client,
    namespace: &str,
    may_be_absent: bool,
    streams: &mut Streams<'_>,
) -> anyhow::Result<Value> {
    match namespaces::labels_of(client.clone(), namespace).await {
        Err(error) if may_be_absent && error.is_absent() => {
            streams.say(&format!(
                "warning: namespace {namespace} does not exist; it is checked without labels"
            ));
            Ok(json!(BTreeMap::from([(NAME_LABEL, namespace)])))
        }
        labels => labels.with_context(|| format!("namespace {namespace}")),
    }
}

const EXAMPLES: &str = "\
Examples:
  istioctl x check-inject web-6f7c9d5b8-abcde -n shop
  istioctl x check-inject deployment/web.shop
  istioctl x check-inject -n shop -l app=web,istio.io/rev=canary
  istioctl x check-inject -A --selector 'app in (web,api)'
  istioctl x check-inject -f web.yaml --diff
  istioctl x check-inject deployment/web.shop -o svg > web.svg";
