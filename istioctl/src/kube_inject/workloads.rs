//! Injection of the workloads of a file, with the messages about each.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::{fmt, thread};

use anyhow::anyhow;
use injector::inject::{InjectError, Injection, InjectionOutcome, Target, inject};
use injector::manifest::{self, LeftAlone, Manifest, PodTemplate, Surprise};
use injector::overlay::error::{OverlayError, TemplateSource};
use injector::settings::annotations::{AnnotationError, key};
use reason::{Reason, words};
use serde_json::Value;

use super::injection_source::InjectionInputs;
use super::tally::Tally;

/// Maps the items on all cores, in runs of neighbours. The results are in the order of the items.
pub(super) fn in_order<'a, T: Sync, R: Send>(
    items: &'a [T],
    work: impl Fn(&'a T) -> R + Sync,
) -> Vec<R> {
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

/// A document after injection.
pub(super) struct Injected {
    /// The new text, or the errors.
    pub(super) text: Result<String, Vec<anyhow::Error>>,
    /// Warnings for the user.
    pub(super) messages: Vec<String>,
    /// Warnings about unchanged objects whose author may have expected an injection.
    pub(super) surprises: Vec<anyhow::Error>,
    pub(super) tally: Tally,
}

impl Injected {
    /// Injects the workloads of a document.
    pub(super) fn new(inputs: &InjectionInputs, document: &manifest::Document<'_>) -> Self {
        let (text, messages) = (Ok(String::new()), Vec::new());
        let (surprises, tally) = (Vec::new(), Tally::default());
        let mut this = Self { text, messages, surprises, tally };
        match Manifest::read(document) {
            Ok(manifest) => {
                for object in manifest.left_alone() {
                    this.leave_alone(object, document);
                }
                this.text = this.inject(inputs, document, &manifest);
            }
            Err(error) => this.text = Err(vec![error.into()]),
        }
        this
    }

    fn leave_alone(&mut self, object: LeftAlone, document: &manifest::Document<'_>) {
        let LeftAlone { kind, surprise } = object;
        *self.tally.left_alone.entry(kind).or_default() += 1;
        self.surprises.extend(surprise.map(|Surprise { line, title, reason }| {
            let place = format!("line {}", document.line + line - 1);
            let place = if title.is_empty() { place } else { format!("{place}: {title}") };
            anyhow!("{reason}").context(place)
        }));
    }

    fn inject(
        &mut self,
        inputs: &InjectionInputs,
        document: &manifest::Document<'_>,
        manifest: &Manifest<'_>,
    ) -> Result<String, Vec<anyhow::Error>> {
        let mut injections: Vec<(&PodTemplate, Box<Injection>, json_patch::Patch)> = Vec::new();
        let mut errors = Vec::new();
        for template in manifest.pods() {
            let title = Title(template);
            match injected_template(inputs, manifest, template) {
                Ok(InjectionOutcome::Injected(injection)) => {
                    self.tally.injected += 1;
                    self.messages.extend(warning_lines(&title, &injection.warnings));
                    let patch = injection.patch().owned();
                    injections.push((template, injection, patch));
                }
                Ok(InjectionOutcome::Skipped { reason, warnings }) => {
                    *self.tally.skipped.entry(reason.word()).or_default() += 1;
                    self.messages.push(skipped(&title, &reason));
                    self.messages.extend(warning_lines(&title, &warnings));
                }
                Err(error) => errors.extend(faults(error).into_iter().map(|(path, error)| {
                    let line = manifest.line_of(template, &path);
                    let line = line.map_or(template.line, |line| document.line + line - 1);
                    error.context(format!("line {line}: {title}"))
                })),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let edits: Vec<_> = injections
            .iter()
            .map(|(template, injection, patch)| manifest::Edit {
                template,
                patch,
                pod: &injection.pod,
            })
            .collect();
        for edit in &edits {
            let lost = manifest.comments_lost(edit).into_iter();
            let lines: Vec<_> = lost.map(|line| (document.line + line - 1).to_string()).collect();
            let title = Title(edit.template);
            self.messages.extend((!lines.is_empty()).then(|| comments_lost(&title, &lines)));
        }
        manifest
            .edit(&edits)
            .map_err(|error| vec![anyhow!(error).context(format!("line {}", document.line))])
    }
}

fn injected_template(
    inputs: &InjectionInputs,
    manifest: &Manifest<'_>,
    template: &PodTemplate,
) -> Result<InjectionOutcome, InjectError> {
    let pod = manifest.pod(template);
    let namespace = namespace_of(pod, template, &inputs.namespace);
    let mut workload = template.workload.clone();
    if workload.namespace.is_empty() {
        namespace.clone_into(&mut workload.namespace);
    }
    let target = Target {
        pod: pod.clone(),
        namespace,
        cluster: inputs.snapshot.facts(namespace, pod),
        // The owner of a pod is derived from its own metadata.
        workload: (!template.is_pod()).then_some(workload),
        path_env: &inputs.path_env,
        rules: inputs.rules,
    };
    inject(&inputs.settings, target)
}

/// Splits an error into single errors, each with the keys that lead to its place in the pod
/// template.
fn faults(error: InjectError) -> Vec<(Vec<String>, anyhow::Error)> {
    let annotation = |key: &str| ["metadata", "annotations", key].map(str::to_owned).to_vec();
    match error {
        InjectError::Annotations(errors) => {
            let fault = |error: AnnotationError| (annotation(&error.key), error.into());
            errors.into_iter().map(fault).collect()
        }
        InjectError::Overlay(OverlayError::NotFound {
            requested_by: TemplateSource::Annotation,
            ..
        }) => {
            vec![(annotation(key::TEMPLATES), error.into())]
        }
        InjectError::Form { ref path, .. } => vec![(path.clone(), error.into())],
        other => vec![(Vec::new(), other.into())],
    }
}

/// Returns the namespaces of the workloads of a file; invalid documents are skipped.
pub(super) fn namespaces(text: &str, default: &str) -> BTreeSet<String> {
    let documents = manifest::Document::split(text).into_iter();
    let parts = documents.flat_map(manifest::Document::parts);
    let manifests = parts.filter_map(|part| Manifest::read(&part).ok());
    let of_manifest = |manifest: Manifest<'_>| {
        let templates = manifest.pods().iter();
        let name = |template| namespace_of(manifest.pod(template), template, default).to_owned();
        templates.map(name).collect::<Vec<_>>()
    };
    manifests.flat_map(of_manifest).collect()
}

/// Returns the namespace of a pod: its own, its workload's, or else the default.
fn namespace_of<'a>(pod: &'a Value, template: &'a PodTemplate, default: &'a str) -> &'a str {
    let own = pod.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let namespaces = [own, &template.workload.namespace, default];
    namespaces.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
}

fn warning_lines(title: &Title<'_>, reasons: &[Reason]) -> Vec<String> {
    reasons.iter().map(|reason| format!("warning: {title}: {reason}")).collect()
}

fn comments_lost(title: &Title<'_>, lines: &[String]) -> String {
    let lines = lines.join(", ");
    let message = format!(
        "the comments of line {lines} are lost, because their container moves to another list"
    );
    let reason = Reason::new(words::COMMENTS_LOST, message);
    format!("warning: {title}: {reason}")
}

/// Returns the message about a skipped workload: Istio's wording, which scripts look for, and the
/// reason.
fn skipped(title: &Title<'_>, reason: &Reason) -> String {
    let words = match reason.word() {
        "host_network" => "has host networking enabled",
        _ => "has sidecar injection disabled",
    };
    format!("===> Skipping injection because {title} {words}\n     {reason}")
}

/// Display of a workload as `Deployment "namespace/name"`.
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

/// Fewer documents are finished before another thread has started.
const WORTH_A_THREAD: usize = 16;
