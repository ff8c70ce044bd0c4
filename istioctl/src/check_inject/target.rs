//! Pods to check: of the cluster, by labels, or of files.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use injector::cluster::error::ClusterError;
use injector::cluster::pods::{self, Selection};
use injector::kubernetes::workload::Workload;
use injector::manifest::{Document, Manifest, ManifestError, PodTemplateRule};
use kube::api::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::inputs::InputFile;
use crate::pod_target::PodTarget;
use crate::progress::Progress;
use crate::workload_kind::WorkloadKind;
use crate::{Streams, inputs, objects, unrendered};

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
    Selector {
        selector: String,
        /// True for the pods of all namespaces.
        everywhere: bool,
    },
    Files(CheckedPods),
}

/// A pod that the API server would admit.
#[derive(Debug)]
pub(super) struct CheckedPod {
    /// The pod or its workload; without a name for labels.
    pub(super) object: Workload,
    /// File and line of the object, if it is of a file.
    pub(super) place: Option<(String, usize)>,
    pub(super) pod: Value,
    /// True for a pod that exists.
    pub(super) running: bool,
}

/// Pods, with the namespaces of their files.
#[derive(Debug, Default)]
pub(super) struct CheckedPods {
    pub(super) pods: Vec<CheckedPod>,
    /// Labels of the files' namespaces by name.
    pub(super) namespaces: BTreeMap<String, Value>,
}

impl Target {
    /// Returns a target of the command line.
    pub(super) fn object(target: &PodTarget, namespace: &str) -> Self {
        let (name, namespace) = target.name_and_namespace(namespace);
        Self::Object { kind: target.kind, name: name.to_owned(), namespace: namespace.to_owned() }
    }

    /// Parses `KEY=VALUE,...`.
    pub(super) fn parse_labels(text: &str) -> Result<Self, String> {
        let label = |pair: &str| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(format!(
                "error: --labels {text:?}: {pair:?} is not KEY=VALUE; hint: --labels has the \
                 labels of one pod; --selector selects pods that exist"
            )),
        };
        Ok(Self::Labels { labels: text.split(',').map(label).collect::<Result<_, _>>()? })
    }

    /// Returns the pods. `default` is the namespace of objects without one.
    pub(super) async fn read(
        self,
        client: &Client,
        default: &str,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<CheckedPods> {
        let pod = match self {
            Self::Files(mut files) => {
                for checked in &mut files.pods {
                    checked.set_default_namespace(default);
                }
                return Ok(files);
            }
            Self::Selector { selector, everywhere } => {
                let namespace = Some(default).filter(|_| !everywhere);
                let progress = Progress::new(streams, "pods");
                return selected(client, &selector, namespace, progress).await;
            }
            Self::Labels { labels } => {
                let object = Workload {
                    api_version: "v1".to_owned(),
                    kind: "Pod".to_owned(),
                    name: String::new(),
                    namespace: default.to_owned(),
                };
                let metadata = json!({"labels": labels, "namespace": default});
                let pod = json!({"metadata": metadata, "spec": {"containers": []}});
                CheckedPod { object, place: None, pod, running: false }
            }
            Self::Object { kind, name, namespace } => {
                let namespace = if namespace.is_empty() { default.to_owned() } else { namespace };
                from_cluster(client, kind, name, namespace).await?
            }
        };
        Ok(CheckedPods { pods: vec![pod], namespaces: BTreeMap::new() })
    }
}

impl CheckedPod {
    fn set_default_namespace(&mut self, default: &str) {
        if self.object.namespace.is_empty() {
            default.clone_into(&mut self.object.namespace);
        }
        // A workload's pods are in its namespace, and the template does not have to name it.
        self.pod["metadata"]["namespace"] = self.object.namespace.clone().into();
    }
}

/// Reads the pods that a label selector selects.
async fn selected(
    client: &Client,
    selector: &str,
    namespace: Option<&str>,
    mut progress: Progress<'_>,
) -> anyhow::Result<CheckedPods> {
    let mut found = CheckedPods::default();
    let selection = Selection { namespace, labels: selector };
    let read = pods::each(client.clone(), selection, PAGE, |pod| {
        progress.count();
        let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default().to_owned();
        let object = Workload {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: text("name"),
            namespace: text("namespace"),
        };
        found.pods.push(CheckedPod { object, place: None, pod, running: true });
    });
    read.await.context("listing pods")?;
    ensure!(!found.pods.is_empty(), "--selector {selector:?} selects no pod");
    Ok(found)
}

/// Reads a pod, or the pod template of a workload.
async fn from_cluster(
    client: &Client,
    kind: &WorkloadKind,
    name: String,
    namespace: String,
) -> anyhow::Result<CheckedPod> {
    let resource = kind.resource();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
    let title = || format!("{} {namespace}/{name}", kind.title);
    let object = match api.get(&name).await.map_err(ClusterError::from) {
        Err(error) if error.is_absent() && kind.template.is_empty() => {
            bail!("{}: {error}; hint: for a Deployment, write deployment/{name}", title())
        }
        object => object.with_context(title)?,
    };
    let mut object = json!(object);
    let Some(template) = object.pointer_mut(kind.template) else {
        bail!("{}: no {}", title(), kind.template);
    };
    let mut pod = template.take();
    pod["metadata"]["namespace"] = namespace.clone().into();
    let object = Workload {
        api_version: resource.api_version,
        kind: kind.title.to_owned(),
        name,
        namespace,
    };
    Ok(CheckedPod { object, place: None, pod, running: kind.template.is_empty() })
}

impl CheckedPods {
    /// Parses the documents of files. Returns all errors.
    pub(super) fn parse(
        files: &[InputFile],
        rules: &[PodTemplateRule],
    ) -> Result<Self, Vec<anyhow::Error>> {
        let (mut found, mut errors) = (Self::default(), Vec::new());
        for file in files {
            for document in Document::split(&file.text) {
                if let Err(error) = found.add(file, &document, rules) {
                    let place = format!("{file}: document {}", document.number);
                    errors.push(unrendered::unreadable(error, &document).context(place));
                }
            }
        }
        if errors.is_empty() && found.pods.is_empty() {
            errors.push(inputs::no_pods(files));
        }
        if errors.is_empty() { Ok(found) } else { Err(errors) }
    }

    fn add(
        &mut self,
        file: &InputFile,
        document: &Document<'_>,
        rules: &[PodTemplateRule],
    ) -> Result<(), ManifestError> {
        let manifest = Manifest::read_by_rules(document, rules)?;
        self.pods.extend(manifest.pods().iter().map(|template| CheckedPod {
            object: template.workload.clone(),
            place: Some((file.to_string(), template.line)),
            pod: manifest.pod(template).clone(),
            running: false,
        }));
        // A document of another kind may have content that only its own parser understands.
        let objects = objects::parse(document.text).unwrap_or_default();
        for namespace in objects.into_iter().filter(|object| object["kind"] == "Namespace") {
            if let Some(name) = namespace["metadata"]["name"].as_str() {
                let mut labels = namespace["metadata"]["labels"].clone();
                // The API server sets this label.
                labels[NAME_LABEL] = name.into();
                self.namespaces.insert(name.to_owned(), labels);
            }
        }
        Ok(())
    }
}

/// Page size of the list of pods.
const PAGE: u32 = 500;

/// Label of a namespace with its name.
pub(super) const NAME_LABEL: &str = "kubernetes.io/metadata.name";
