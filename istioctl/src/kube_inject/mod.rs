//! `istioctl kube-inject`: sidecar injection for the workloads of files.

mod cluster_state;
mod conversion;
mod document_flags;
mod explanation;
mod files;
mod finding;
mod injection_flags;
mod operator_file;
mod output_flags;
mod parallel;
mod tally;
mod unified_diff;
mod webhook;
mod workload_patch;
mod workloads;

use clap::Args;
use injector::manifest;

use crate::cluster::ClusterClient;
use crate::inputs::{InputFile, InputFlags};
use crate::{Failure, Outcome, Streams, output};
use files::InjectedFile;
use finding::{Finding, FindingResult, Title};
use injection_flags::InjectionFlags;
use output_flags::{Destination, Form, OutputFlags};
use parallel::in_order;
use tally::Tally;
use workloads::{Injected, Keep};

/// Add the sidecar to the workloads of files
///
/// Only pod templates change, and in them only what injection adds or replaces: comments, order,
/// quoting, anchors and unknown fields stay as they are, and so do documents of other kinds. YAML
/// stays YAML, JSON stays JSON. Injecting twice gives the same as injecting once.
///
/// Supported kinds are Deployment, DaemonSet, ReplicaSet, StatefulSet (apps/v1), Job, CronJob
/// (batch/v1), Pod, ReplicationController, List (v1) and DeploymentConfig (apps.openshift.io/v1 and
/// v1); of old API versions, Deployment, DaemonSet, ReplicaSet (extensions/v1beta1) and CronJob
/// (batch/v1beta1); in any version, Rollout (argoproj.io), Service and Configuration
/// (serving.knative.dev) and JobSet (jobset.x-k8s.io). --pod-template adds others.
///
/// A summary on standard error counts the objects that were injected, skipped with the reason, or
/// skipped because of their kind.
///
/// The command uses a cluster only with --kubeconfig, --context, --injectConfigMapName or
/// --meshConfigMapName. Then it injects like that cluster's injector: with its ConfigMaps, its
/// nodes and its ProxyConfig resources. Each named file replaces one of its documents; with
/// --injectConfigFile, the policy, the selectors and ProxyConfig resources are ignored, as without
/// a cluster.
///
/// The command writes nothing if any workload of any file cannot be injected.
#[expect(clippy::doc_markdown, reason = "it is shown as help, where backticks only disturb")]
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct KubeInject {
    #[command(flatten)]
    files: InputFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    injection: InjectionFlags,
    /// Fail if an object is skipped although it looks like a workload: an unknown kind with a pod
    /// template, a kind in the wrong letter case, a workload without apiVersion, or a document that
    /// is not an object
    #[arg(long)]
    strict: bool,
}

impl KubeInject {
    /// Reads, injects, and writes only if everything succeeded.
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<Outcome, Failure> {
        let destination = self.output.destination().map_err(Failure::Usage)?;
        if destination == Destination::InPlace && self.files.name_standard_input() {
            return Err(Failure::Usage(NO_FILE.to_owned()));
        }
        let files = self.files.read(streams).map_err(Failure::Errors)?;
        let inputs =
            self.injection.inputs((&files, self.files.pod_templates()), cluster_client, streams);
        let inputs = inputs.map_err(Failure::from_error)?;
        let documents: Vec<_> = files
            .iter()
            .flat_map(|file| {
                let documents = manifest::Document::split(&file.text).into_iter();
                documents.flat_map(manifest::Document::parts).map(move |part| (file, part))
            })
            .collect();
        let keep = match destination {
            Destination::StandardOutput(Form::Patch) => Keep::Patches,
            _ => Keep::TextAlone,
        };
        let outcomes = in_order(&documents, |(_, document)| Injected::new(&inputs, document, keep));
        let mut injected: Vec<_> = files.iter().map(InjectedFile::new).collect();
        let mut errors = Vec::new();
        let mut outcomes = documents.into_iter().zip(outcomes).peekable();
        for into in &mut injected {
            while let Some(((file, document), outcome)) =
                outcomes.next_if(|((file, _), _)| std::ptr::eq(*file, into.file))
            {
                let place = || format!("{file}: document {}", document.number);
                match outcome.text {
                    Ok(text) => into.parts.push((document.text, text)),
                    Err(failed) => {
                        errors.extend(failed.into_iter().map(|error| error.context(place())));
                    }
                }
                into.findings.extend(outcome.findings);
            }
        }
        errors.extend(self.report(&injected, destination, streams));
        write(injected, destination, errors, streams)
    }

    /// Prints the messages about all objects. Returns those that are errors.
    fn report(
        &self,
        files: &[InjectedFile<'_>],
        destination: Destination<'_>,
        streams: &mut Streams<'_>,
    ) -> Vec<anyhow::Error> {
        let explained =
            matches!(destination, Destination::ExplanationTable | Destination::ExplanationJson);
        let mut errors = Vec::new();
        for (file, finding) in each_finding(files) {
            let place = format!("{file}: document {}", finding.document);
            let before = if files.len() > 1 { format!("{place}: ") } else { String::new() };
            let skipped = finding.skip_message(&before).filter(|_| !explained);
            for message in skipped.into_iter().chain(finding.warning_messages(&before)) {
                streams.say(&message);
            }
            match finding.surprise(&place) {
                Some(surprise) if self.strict => errors.push(surprise),
                Some(surprise) if !explained => streams.say(&format!("warning: {surprise:#}")),
                _ => {}
            }
        }
        errors
    }
}

/// Writes the result, unless there are errors.
fn write(
    files: Vec<InjectedFile<'_>>,
    destination: Destination<'_>,
    mut errors: Vec<anyhow::Error>,
    streams: &mut Streams<'_>,
) -> Result<Outcome, Failure> {
    let explanation = match destination {
        Destination::ExplanationTable => Some(explanation::explanation_table(&files)),
        Destination::ExplanationJson => Some(explanation::explanation_json(&files)),
        _ => None,
    };
    if let Some(text) = explanation {
        errors.extend(output::write(streams.output, &text).err());
    }
    if !errors.is_empty() {
        return Err(Failure::Errors(errors));
    }
    let mut tally = Tally::default();
    each_finding(&files).for_each(|(_, finding)| tally.add(finding));
    let named = match &*files {
        [file] => file.file.to_string(),
        files => format!("{} files", files.len()),
    };
    let changed = files.iter().filter(|file| file.is_changed()).count();
    let mut summary = format!("{named}: {tally}");
    let mut outcome = Outcome::Done;
    match destination {
        Destination::Check => {
            list_changes(&files, streams);
            summary = format!("{changed} of {} files would change", files.len());
            outcome = if changed > 0 { Outcome::WouldChange } else { Outcome::Done };
        }
        Destination::ExplanationJson | Destination::ExplanationTable => {}
        Destination::File(path) => {
            output::write_file(path, &files::stream(files)).map_err(Failure::from_error)?;
        }
        Destination::InPlace => {
            files::write_back(&files).map_err(Failure::from_error)?;
            summary = format!("{summary}; {changed} of {} files changed", files.len());
        }
        Destination::StandardOutput(form) => {
            let parts = form.render(files).map_err(Failure::Errors)?;
            output::write_parts(streams.output, &parts).map_err(Failure::from_error)?;
        }
    }
    streams.say(&summary);
    Ok(outcome)
}

/// Lists the workloads that would change.
fn list_changes(files: &[InjectedFile<'_>], streams: &mut Streams<'_>) {
    let changed = each_finding(files).filter(|(_, it)| it.result == FindingResult::Injected);
    let lines = changed.map(|(file, Finding { line, object, .. })| {
        format!("{file}: line {line}: {} would be injected", Title(object))
    });
    let mut lines: Vec<_> = lines.collect();
    // An object may have several pod templates.
    lines.dedup();
    for line in &lines {
        streams.say(line);
    }
}

fn each_finding<'a>(
    files: &'a [InjectedFile<'_>],
) -> impl Iterator<Item = (&'a InputFile, &'a Finding)> {
    files.iter().flat_map(|file| file.findings.iter().map(|finding| (file.file, finding)))
}

const NO_FILE: &str = "error: --in-place: standard input is not a file\n  hint: name files or \
                       directories with --filename";

const EXAMPLES: &str = "\
Examples:
  istioctl kube-inject -f deployment.yaml | kubectl apply -f -
  istioctl kube-inject -f deployment.yaml -o injected.yaml
  istioctl kube-inject -R -f manifests --check
  istioctl kube-inject -R -f manifests -o diff | less
  istioctl kube-inject -f rollout.yaml --explain
  kubectl get deployment web -o json | istioctl kube-inject -f - | kubectl apply -f -
  istioctl kube-inject -f deployment.yaml --context production -r canary";
