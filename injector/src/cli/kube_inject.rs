//! `istioctl kube-inject`: the sidecar for the workloads of a file.

use std::fmt;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, anyhow};
use clap::Args;

use super::{Failure, Streams, output};
use crate::cluster_facts::ClusterFacts;
use crate::decision::Rules;
use crate::inject::{Injection, Outcome, Target, inject};
use crate::manifest::{self, Manifest, PodTemplate};
use crate::native_sidecars::NativeSidecars;
use crate::reason::Reason;
use crate::settings::notice::Notice;
use crate::settings::{Document, Documents, Process, Settings};

/// Add the sidecar to the workloads of a file
///
/// Only pod templates change, and in them only what injection adds or replaces: comments, order,
/// quoting, anchors and unknown fields stay as they are, and so do documents of other kinds. YAML
/// stays YAML, JSON stays JSON. Injecting twice gives the same as injecting once.
///
/// Known are Deployment, DaemonSet, ReplicaSet, StatefulSet (apps/v1), Job, CronJob (batch/v1), Pod,
/// ReplicationController, List (v1) and DeploymentConfig (apps.openshift.io/v1).
///
/// No cluster is asked. Nothing is written when any workload of the file cannot be injected.
#[expect(clippy::doc_markdown, reason = "it is shown as help, where backticks only disturb")]
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct KubeInject {
    /// The file to inject; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
    /// Where to write; standard output by default
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The `config` document of Istio's ConfigMap `istio-sidecar-injector`; built in by default
    #[arg(long = "injectConfigFile", value_name = "FILE")]
    inject_config: Option<PathBuf>,
    /// The `values` document of Istio's ConfigMap `istio-sidecar-injector`; built in by default
    #[arg(long = "valuesFile", value_name = "FILE")]
    values: Option<PathBuf>,
    /// The `mesh` document of Istio's ConfigMap `istio`; built in by default
    #[arg(long = "meshConfigFile", value_name = "FILE")]
    mesh_config: Option<PathBuf>,
    /// The control plane's revision
    #[arg(short, long, default_value = "", hide_default_value = true)]
    revision: String,
    /// Whether the proxy becomes a native sidecar where a pod does not say; `auto` is `true`
    #[arg(
        long = "enable-native-sidecars",
        env = "ENABLE_NATIVE_SIDECARS",
        value_name = "auto|true|false",
        default_value = "auto"
    )]
    native_sidecars: NativeSidecars,
    /// The compliance policy that is handed to the proxy
    #[arg(
        long = "compliance-policy",
        env = "COMPLIANCE_POLICY",
        value_name = "POLICY",
        default_value = "",
        hide_default_value = true
    )]
    compliance_policy: String,
    /// The platform; `openshift` leaves the users of a pod to it
    #[arg(long, env = "PLATFORM", default_value = "", hide_default_value = true)]
    platform: String,
}

impl KubeInject {
    /// Reads, injects, and writes only when all went well.
    pub(super) fn run(&self, namespace: &str, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let mut settings = self.settings().map_err(Failure::of)?;
        self.keep_templates_alone(&mut settings);
        for notice in &settings.notices {
            streams.say(&format!("warning: {notice}"));
        }
        let (file, text) = self.read(streams).map_err(Failure::of)?;
        let mut injected = String::with_capacity(text.len() * 3);
        let mut errors = Vec::new();
        let documents = manifest::Document::split(&text);
        let outcomes = in_order(&documents, |document| {
            let mut messages = Vec::new();
            let text = injected_document(&settings, namespace, document, &mut messages);
            (messages, text)
        });
        for (document, (messages, outcome)) in documents.iter().zip(outcomes) {
            for message in messages {
                streams.say(&message);
            }
            match outcome {
                Ok(text) => injected.push_str(&text),
                Err(failed) => errors.extend(failed.into_iter().map(|error| {
                    let number = document.number;
                    error.context(format!("{file}: document {number}"))
                })),
            }
        }
        if !errors.is_empty() {
            return Err(Failure::Errors(errors));
        }
        match &self.output {
            Some(path) if path != Path::new(STANDARD) => output::write_file(path, &injected),
            _ => output::write(streams.output, &injected),
        }
        .map_err(Failure::of)
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let read = |flag: &str, path: &Option<PathBuf>| {
            let Some(path) = path else { return Ok(None) };
            let text =
                fs::read_to_string(path).with_context(|| format!("{flag} {}", path.display()))?;
            anyhow::Ok(Some((format!("{flag} {}", path.display()), text)))
        };
        let inject_config = read("--injectConfigFile", &self.inject_config)?;
        let values = read("--valuesFile", &self.values)?;
        let mesh_config = read("--meshConfigFile", &self.mesh_config)?;
        let documents = Documents {
            inject_config: inject_config.as_ref().map(document),
            values: values.as_ref().map(document),
            mesh_config: mesh_config.as_ref().map(document),
        };
        let process = Process {
            // As with Istio's command: templates see the default revision without a name.
            revision: if self.revision == "default" { "" } else { &self.revision }.to_owned(),
            native_sidecars: self.native_sidecars.by_default(),
            compliance_policy: self.compliance_policy.clone(),
            openshift: self.platform == "openshift",
        };
        Ok(Settings::parse(&documents, process)?)
    }

    /// A file's pods are injected by its templates alone, as with Istio's command; what that
    /// leaves without effect is said.
    fn keep_templates_alone(&self, settings: &mut Settings) {
        let without_effect = settings.inject.keep_templates_alone();
        let Some(path) = &self.inject_config else { return };
        settings.notices.extend(without_effect.into_iter().map(|key| Notice {
            origin: format!("--injectConfigFile {}", path.display()),
            path: key.to_owned(),
            problem: "counts for the webhook alone".to_owned(),
        }));
    }

    /// The name for messages and the text.
    fn read(&self, streams: &mut Streams<'_>) -> anyhow::Result<(String, String)> {
        let (name, bytes) = if self.filename == Path::new(STANDARD) {
            let mut bytes = Vec::new();
            streams.input.read_to_end(&mut bytes).context("standard input")?;
            ("standard input".to_owned(), bytes)
        } else {
            let name = self.filename.display().to_string();
            let bytes = fs::read(&self.filename).with_context(|| format!("--filename {name}"))?;
            (name, bytes)
        };
        let text = String::from_utf8(bytes).with_context(|| format!("{name}: not UTF-8 text"))?;
        Ok((name, text))
    }
}

/// Works on the items with all cores, in runs of neighbours; the results are in their order.
fn in_order<'a, T: Sync, R: Send>(items: &'a [T], work: impl Fn(&'a T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = items.len().div_ceil(cores).max(WORTH_A_THREAD);
    let (work, mut runs) = (&work, items.chunks(share));
    let first = runs.next().unwrap_or_default();
    thread::scope(|scope| {
        let others: Vec<_> =
            runs.map(|run| scope.spawn(move || run.iter().map(work).collect::<Vec<_>>())).collect();
        let mut results: Vec<_> = first.iter().map(work).collect();
        for other in others {
            results.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    })
}

/// A document's text after injection, or why there is none.
fn injected_document(
    settings: &Settings,
    namespace: &str,
    document: &manifest::Document<'_>,
    messages: &mut Vec<String>,
) -> Result<String, Vec<anyhow::Error>> {
    let manifest = Manifest::read(document).map_err(|error| vec![error.into()])?;
    let mut injections: Vec<(&PodTemplate, Box<Injection>, json_patch::Patch)> = Vec::new();
    let mut errors = Vec::new();
    for template in manifest.pods() {
        let title = Title(template);
        match injected_template(settings, namespace, &manifest, template) {
            Ok(Outcome::Injected(injection)) => {
                messages.extend(warnings(&title, &injection.warnings));
                let patch = injection.patch().owned();
                injections.push((template, injection, patch));
            }
            Ok(Outcome::Skipped { reason, advice }) => {
                messages.push(skipped(&title, &reason));
                messages.extend(warnings(&title, &advice));
            }
            Err(error) => errors.push(error.context(format!("line {}: {title}", template.line))),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let edits: Vec<_> = injections
        .iter()
        .map(|(template, injection, patch)| manifest::Edit { template, patch, pod: &injection.pod })
        .collect();
    for edit in &edits {
        let lost = manifest.comments_lost(edit).into_iter();
        let lines: Vec<_> = lost.map(|line| (document.line + line - 1).to_string()).collect();
        let title = Title(edit.template);
        messages.extend((!lines.is_empty()).then(|| comments_lost(&title, &lines)));
    }
    manifest
        .edit(&edits)
        .map_err(|error| vec![anyhow!(error).context(format!("line {}", document.line))])
}

fn injected_template(
    settings: &Settings,
    namespace: &str,
    manifest: &Manifest<'_>,
    template: &PodTemplate,
) -> anyhow::Result<Outcome> {
    let pod = manifest.pod(template);
    let own = pod.pointer("/metadata/namespace").and_then(|own| own.as_str()).unwrap_or_default();
    let namespaces = [own, &template.workload.namespace, namespace];
    let namespace = namespaces.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    let mut workload = template.workload.clone();
    if workload.namespace.is_empty() {
        namespace.clone_into(&mut workload.namespace);
    }
    let target = Target {
        pod: pod.clone(),
        namespace,
        cluster: ClusterFacts::default(),
        // A pod's own metadata tell its owner.
        workload: (!template.is_pod()).then_some(workload),
        path_env: &[],
        rules: Rules::Manual,
    };
    Ok(inject(settings, target)?)
}

fn warnings(title: &Title<'_>, reasons: &[Reason]) -> Vec<String> {
    reasons.iter().map(|reason| format!("warning: {title}: {reason}")).collect()
}

fn comments_lost(title: &Title<'_>, lines: &[String]) -> String {
    let lines = lines.join(", ");
    let message = format!(
        "the comments of line {lines} are in a container that goes to another list, and are left out"
    );
    let reason = Reason::new("comments_lost", message)
        .with_hint("write the container under spec.initContainers, or the comments above it");
    format!("warning: {title}: {reason}")
}

/// Istio's words, which scripts look for, and then ours.
fn skipped(title: &Title<'_>, reason: &Reason) -> String {
    let words = match reason.word() {
        "host_network" => "has host networking enabled",
        _ => "has sidecar injection disabled",
    };
    format!("===> Skipping injection because {title} {words}\n     {reason}")
}

/// `Deployment "namespace/name"`.
struct Title<'a>(&'a PodTemplate);

impl fmt::Display for Title<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workload = &self.0.workload;
        match workload.namespace.as_str() {
            "" => write!(f, "{} \"{}\"", workload.kind, workload.name),
            namespace => write!(f, "{} \"{namespace}/{}\"", workload.kind, workload.name),
        }
    }
}

fn document((source, text): &(String, String)) -> Document<'_> {
    Document { source, text }
}

/// Standard input or output.
const STANDARD: &str = "-";
/// Fewer documents are done before another thread has started.
const WORTH_A_THREAD: usize = 16;

const EXAMPLES: &str = "\
Examples:
  istioctl kube-inject -f deployment.yaml | kubectl apply -f -
  istioctl kube-inject -f deployment.yaml -o injected.yaml
  kubectl get deployment web -o json | istioctl kube-inject -f - | kubectl apply -f -";
