//! Pods to check: of the cluster, by labels, or of files.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use injector::cluster::error::ClusterError;
use injector::manifest::{Document, Manifest};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::workload_kind::WorkloadKind;
use crate::cluster;
use crate::finding::Title;
use crate::inputs::{InputFile, InputFlags};

/// Pods to check.
pub(super) enum Target {
    Labels {
        labels: BTreeMap<String, String>,
    },
    Object {
        kind: &'static WorkloadKind,
        name: String,
        /// Empty for the default namespace.
        namespace: String,
    },
    Files(FilePods),
}

/// A pod that the API server would admit.
#[derive(Debug)]
pub(super) struct CheckedPod {
    /// The object of the pod, for messages; empty for labels.
    pub(super) title: String,
    /// File and line of the object; empty if it is not of a file.
    pub(super) place: String,
    pub(super) namespace: String,
    pub(super) pod: Value,
    /// True for a pod that exists.
    pub(super) running: bool,
}

/// Pods and namespaces of files.
#[derive(Debug)]
pub(super) struct FilePods {
    pub(super) pods: Vec<CheckedPod>,
    /// Labels of the namespaces by name.
    pub(super) namespaces: BTreeMap<String, Value>,
}

impl Target {
    /// Parses `[TYPE/]NAME[.NAMESPACE]`.
    pub(super) fn parse(target: &str, namespace: &str) -> Result<Self, String> {
        let (kind, rest) = target.split_once('/').unwrap_or(("pod", target));
        let kind = WorkloadKind::parse(kind)?;
        let (name, namespace) = cluster::name_and_namespace(rest, namespace);
        if name.is_empty() {
            let hint = "deployment/NAME, or a pod's NAME";
            return Err(format!("error: {target:?}: no name; hint: {hint}"));
        }
        Ok(Self::Object { kind, name: name.to_owned(), namespace: namespace.to_owned() })
    }

    /// Parses `KEY=VALUE,...`.
    pub(super) fn parse_labels(text: &str) -> Result<Self, String> {
        let label = |pair: &str| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(format!("error: --labels {text:?}: {pair:?} is not KEY=VALUE")),
        };
        Ok(Self::Labels { labels: text.split(',').map(label).collect::<Result<_, _>>()? })
    }

    /// Returns the pods and the namespaces of the files; `default` is the namespace of objects
    /// without one.
    pub(super) async fn read(self, client: &Client, default: &str) -> anyhow::Result<FilePods> {
        let checked = match self {
            Self::Files(files) => return Ok(files),
            Self::Labels { labels } => {
                let metadata = json!({"labels": labels, "namespace": default});
                CheckedPod {
                    title: String::new(),
                    place: String::new(),
                    namespace: default.to_owned(),
                    pod: json!({"metadata": metadata, "spec": {"containers": []}}),
                    running: false,
                }
            }
            Self::Object { kind, name, namespace } => {
                let namespace = if namespace.is_empty() { default.to_owned() } else { namespace };
                from_cluster(client, kind, &name, namespace).await?
            }
        };
        Ok(FilePods { pods: vec![checked], namespaces: BTreeMap::new() })
    }
}

/// Reads a pod, or the pod template of a workload.
async fn from_cluster(
    client: &Client,
    kind: &WorkloadKind,
    name: &str,
    namespace: String,
) -> anyhow::Result<CheckedPod> {
    let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.title);
    let resource = ApiResource::from_gvk(&gvk);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
    let title = format!("{} {namespace}/{name}", kind.title);
    let object = api.get(name).await.map_err(ClusterError::from);
    let mut object = json!(object.with_context(|| title.clone())?);
    let Some(template) = object.pointer_mut(kind.template) else {
        bail!("{title}: no {}", kind.template);
    };
    let mut pod = template.take();
    pod["metadata"]["namespace"] = namespace.clone().into();
    let running = kind.template.is_empty();
    Ok(CheckedPod { title, place: String::new(), namespace, pod, running })
}

impl FilePods {
    /// Parses the documents of files. `default` is the namespace of objects without one. Returns
    /// all errors.
    pub(super) fn parse(
        files: &[InputFile],
        flags: &InputFlags,
        default: &str,
    ) -> Result<Self, Vec<anyhow::Error>> {
        let mut found = Self { pods: Vec::new(), namespaces: BTreeMap::new() };
        let mut errors = Vec::new();
        for file in files {
            let documents = Document::split(&file.text).into_iter().flat_map(Document::parts);
            for document in documents {
                match Manifest::read_by_rules(&document, flags.pod_templates()) {
                    Ok(manifest) => found.add(file, &manifest, default),
                    Err(error) => {
                        let place = format!("{file}: document {}", document.number);
                        errors.push(anyhow::Error::from(error).context(place));
                    }
                }
                found.namespaces.extend(namespace_labels(document.text));
            }
        }
        if errors.is_empty() { Ok(found) } else { Err(errors) }
    }

    fn add(&mut self, file: &InputFile, manifest: &Manifest<'_>, default: &str) {
        for template in manifest.pods() {
            let mut pod = manifest.pod(template).clone();
            let mut workload = template.workload.clone();
            if workload.namespace.is_empty() {
                default.clone_into(&mut workload.namespace);
            }
            pod["metadata"]["namespace"] = workload.namespace.clone().into();
            self.pods.push(CheckedPod {
                title: Title(&workload).to_string(),
                place: format!("{file}: line {}", template.line),
                namespace: workload.namespace,
                pod,
                running: false,
            });
        }
    }
}
