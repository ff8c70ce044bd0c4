//! `istioctl experimental describe`: a pod's ports, sidecar and captured traffic, in words.

mod answer;
mod capture;
mod cni;
mod description;
mod packets;
mod ports;
mod state;
mod warnings;

use std::net::IpAddr;

use anyhow::Context as _;
use clap::{ArgGroup, Args, Subcommand};
use injector::cluster::error::ClusterError;
use injector::inject::InjectionOutcome;
use injector::inject::reinject::status::InjectionStatus;
use injector::manifest::{Document, Manifest};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{Api, Client};
use serde_json::{Value, json};

use self::description::{DescribedPod, PodDescription};
use crate::cluster::{Cluster, ClusterClient};
use crate::inputs::InputFlags;
use crate::kube_inject::injection_flags::{InjectionFlags, InjectionInputs};
use crate::kube_inject::workloads::{injected_template, placed_errors};
use crate::output::Form;
use crate::pod_target::{NamedPod, PodTarget};
use crate::{Failure, Streams, cluster, inputs, objects, output, unrendered};

/// Describe a pod and its traffic
#[derive(Debug, Args)]
pub(super) struct Describe {
    #[command(subcommand)]
    command: DescribeCommand,
}

#[derive(Debug, Subcommand)]
enum DescribeCommand {
    #[command(visible_alias = "po")]
    Pod(Box<DescribePod>),
}

/// Show what the sidecar of a pod captures, and which setting decides
///
/// The rules are those of the pod's init container, or of the CNI plugin by the pod's annotations.
/// `istio-init` explains typical packets by them.
///
/// With --filename, the pods of files are injected first, as by kube-inject.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("filename", |it| it.required(false)))]
#[command(group(ArgGroup::new("described").required(true).args(["target", "filename"])))]
struct DescribePod {
    /// The pod, as NAME.NAMESPACE, or NAME with -n; deployment/NAME is a pod of it that runs
    #[arg(value_name = "[TYPE/]NAME[.NAMESPACE]", value_parser = PodTarget::parse)]
    target: Option<PodTarget>,
    #[command(flatten)]
    files: InputFlags,
    #[command(flatten)]
    injection: InjectionFlags,
    /// Output format
    #[arg(short, long, value_name = "FORM", value_enum, default_value = "table")]
    output: Form,
}

impl Describe {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let DescribeCommand::Pod(command) = &self.command;
        let descriptions = match &command.target {
            Some(target) => described_in_cluster(target, cluster_client).map(|it| vec![it]),
            None => command.described_in_files(cluster_client, streams),
        }?;
        let text = match command.output {
            Form::Table => {
                descriptions.iter().map(PodDescription::text).collect::<Vec<_>>().join("\n")
            }
            form => {
                let all = descriptions.iter().map(PodDescription::json).collect();
                form.render(&all).map_err(Failure::from_error)?
            }
        };
        output::write(streams.output, &text).map_err(Failure::from_error)
    }
}

impl DescribePod {
    fn described_in_files(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<Vec<PodDescription>, Failure> {
        let files = self.files.read_only(streams).map_err(Failure::Errors)?;
        let given = (&*files, self.files.pod_templates());
        let inputs = self.injection.inputs(given, cluster_client, streams);
        let inputs = inputs.map_err(Failure::from_error)?;
        let (mut services, mut descriptions, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for document in files.iter().flat_map(|file| Document::split(&file.text)) {
            // A document of another kind may have content that only its own parser understands.
            let objects = objects::parse(document.text).unwrap_or_default();
            services.extend(objects.into_iter().filter(|object| object["kind"] == "Service"));
        }
        for file in &files {
            for document in Document::split(&file.text) {
                match of_document(&document, &inputs, &services) {
                    Ok(found) => descriptions.extend(found),
                    Err(found) => errors.extend(found.into_iter().map(|error| {
                        error.context(format!("{file}: document {}", document.number))
                    })),
                }
            }
        }
        if errors.is_empty() && descriptions.is_empty() {
            errors.push(inputs::no_pods(&files));
        }
        if errors.is_empty() { Ok(descriptions) } else { Err(Failure::Errors(errors)) }
    }
}

fn described_in_cluster(
    target: &PodTarget,
    cluster_client: ClusterClient<'_>,
) -> Result<PodDescription, Failure> {
    let described = cluster::ask(cluster_client.flags, async |Cluster { client, name: at }| {
        described(&client, target, cluster_client.namespace).await.context(at)
    });
    described.map_err(Failure::from_error)
}

/// Describes the pods of a document after their injection.
fn of_document(
    document: &Document<'_>,
    inputs: &InjectionInputs,
    services: &[Value],
) -> Result<Vec<PodDescription>, Vec<anyhow::Error>> {
    let manifest = Manifest::read_by_rules(document, &inputs.pod_templates);
    let manifest = manifest.map_err(|error| vec![unrendered::unreadable(error, document)])?;
    let (mut descriptions, mut errors) = (Vec::new(), Vec::new());
    for template in manifest.pods() {
        let mut pod = manifest.pod(template).clone();
        let (mut skipped, mut warnings) = (None, Vec::new());
        if InjectionStatus::from_pod(&pod).is_none() {
            match injected_template(inputs, &manifest, template) {
                Ok(InjectionOutcome::Injected(injection)) => {
                    warnings = injection.warnings;
                    pod = injection.pod;
                }
                Ok(InjectionOutcome::Skipped { reason, warnings: others }) => {
                    skipped = Some(reason.to_string());
                    warnings = others;
                }
                Err(error) => {
                    errors.extend(placed_errors(error, document, &manifest, template));
                    continue;
                }
            }
        }
        let own = &template.workload.namespace;
        let namespace = if own.is_empty() { &inputs.namespace } else { own };
        let described = DescribedPod {
            kind: &template.workload.kind,
            name: &template.workload.name,
            namespace,
            pod: &pod,
            skipped,
            warnings: warnings.iter().map(ToString::to_string).collect(),
        };
        let is_near = |service: &&Value| {
            let of_service = service["metadata"]["namespace"].as_str().unwrap_or(&inputs.namespace);
            of_service == namespace
        };
        let services = services.iter().filter(is_near);
        descriptions.push(PodDescription::new(described, services, None));
    }
    if errors.is_empty() { Ok(descriptions) } else { Err(errors) }
}

/// Describes a pod of the cluster.
async fn described(
    client: &Client,
    target: &PodTarget,
    namespace: &str,
) -> anyhow::Result<PodDescription> {
    let NamedPod { namespace, name } = &target.pod(client, namespace).await?;
    let title = || format!("Pod {namespace}/{name}");
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pod = json!(pods.get(name).await.map_err(ClusterError::from).with_context(title)?);
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let services = services.list(&kube::api::ListParams::default()).await;
    let services = services.map_err(ClusterError::from);
    let services = services.with_context(|| format!("listing Services of {namespace}"))?;
    let services: Vec<Value> = services.items.iter().map(|service| json!(service)).collect();
    let described = DescribedPod {
        kind: "Pod",
        name,
        namespace,
        pod: &pod,
        skipped: None,
        warnings: Vec::new(),
    };
    let name_server = name_server(client).await;
    Ok(PodDescription::new(described, services.iter(), name_server))
}

/// Returns the address of the cluster's DNS; `None` if it has another name, or cannot be read.
async fn name_server(client: &Client) -> Option<IpAddr> {
    let services: Api<Service> = Api::namespaced(client.clone(), "kube-system");
    let service = services.get_opt("kube-dns").await.ok()??;
    service.spec?.cluster_ip?.parse().ok()
}

const EXAMPLES: &str = "\
Examples:
  istioctl x describe pod web-6f7c9d5b8-abcde -n shop
  istioctl x describe pod web-6f7c9d5b8-abcde.shop -o json
  istioctl x describe pod -f web.yaml";
