//! `istioctl kube-inject`: sidecar injection for the workloads of files.

mod cluster_state;
mod document_flags;
mod files;
mod finding;
mod injection_flags;
mod operator_file;
mod output_flags;
mod tally;
mod webhook;
mod workloads;

use clap::Args;
use injector::manifest;

use crate::cluster::ClusterClient;
use crate::inputs::InputFlags;
use crate::{Failure, Outcome, Streams, output};
use files::InjectedFile;
use finding::{Finding, FindingResult, Title};
use injection_flags::InjectionFlags;
use output_flags::{Destination, OutputFlags};
use tally::Tally;
use workloads::{Injected, in_order};

/// Add the sidecar to the workloads of a file
///
/// Only pod templates change, and in them only what injection adds or replaces: comments, order,
/// quoting, anchors and unknown fields stay as they are, and so do documents of other kinds. YAML
/// stays YAML, JSON stays JSON. Injecting twice gives the same as injecting once.
///
/// Supported kinds are Deployment, DaemonSet, ReplicaSet, StatefulSet (apps/v1), Job, CronJob
/// (batch/v1), Pod, ReplicationController, List (v1) and DeploymentConfig (apps.openshift.io/v1 and
/// v1); of old API versions, Deployment, DaemonSet, ReplicaSet (extensions/v1beta1) and CronJob
/// (batch/v1beta1).
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
/// The command writes nothing if any workload of the file cannot be injected.
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
        if self.output.destination() == Destination::InPlace && self.files.name_standard_input() {
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
        let outcomes = in_order(&documents, |(_, document)| Injected::new(&inputs, document));
        let mut injected: Vec<_> = files.iter().map(InjectedFile::new).collect();
        let (mut errors, mut tally) = (Vec::new(), Tally::default());
        let mut outcomes = documents.iter().zip(outcomes).peekable();
        for into in &mut injected {
            while let Some(((file, document), outcome)) =
                outcomes.next_if(|((file, _), _)| std::ptr::eq(*file, into.file))
            {
                let place = || format!("{file}: document {}", document.number);
                outcome.findings.iter().for_each(|finding| tally.add(finding));
                match outcome.text {
                    Ok(text) => into.parts.push(text),
                    Err(failed) => {
                        errors.extend(failed.into_iter().map(|error| error.context(place())));
                    }
                }
                errors.extend(self.report(&outcome.findings, &place(), files.len() > 1, streams));
                into.findings.extend(outcome.findings);
            }
        }
        if !errors.is_empty() {
            return Err(Failure::Errors(errors));
        }
        let outcome = match self.output.destination() {
            Destination::Check => Ok(check(&injected, streams)),
            Destination::File(path) => {
                output::write_file(path, &files::stream(injected)).map(|()| Outcome::Done)
            }
            Destination::InPlace => files::write_back(&injected).map(|()| Outcome::Done),
            Destination::StandardOutput => {
                let stream = files::stream(injected);
                output::write_parts(streams.output, &stream).map(|()| Outcome::Done)
            }
        };
        let outcome = outcome.map_err(Failure::from_error)?;
        match &*files {
            [file] => streams.say(&format!("{file}: {tally}")),
            files => streams.say(&format!("{} files: {tally}", files.len())),
        }
        Ok(outcome)
    }

    /// Prints the messages about a document. Returns those that are errors.
    fn report(
        &self,
        findings: &[Finding],
        place: &str,
        several: bool,
        streams: &mut Streams<'_>,
    ) -> Vec<anyhow::Error> {
        let before = if several { format!("{place}: ") } else { String::new() };
        let mut errors = Vec::new();
        for finding in findings {
            for message in finding.messages(&before) {
                streams.say(&message);
            }
            let Some(surprise) = finding.surprise(place) else { continue };
            if self.strict {
                errors.push(surprise);
            } else {
                streams.say(&format!("warning: {surprise:#}"));
            }
        }
        errors
    }
}

/// Lists the workloads that would change.
fn check(injected: &[InjectedFile<'_>], streams: &mut Streams<'_>) -> Outcome {
    for file in injected {
        let changed = file.findings.iter().filter(|it| it.result == FindingResult::Injected);
        let mut lines: Vec<_> = changed
            .map(|Finding { line, object, .. }| {
                format!("{}: line {line}: {} would be injected", file.file, Title(object))
            })
            .collect();
        // An object may have several pod templates.
        lines.dedup();
        for line in &lines {
            streams.say(line);
        }
    }
    let changed = injected.iter().any(InjectedFile::is_changed);
    if changed { Outcome::WouldChange } else { Outcome::Done }
}

const NO_FILE: &str = "error: --in-place: standard input is not a file\n  hint: name files or \
                       directories with --filename";

const EXAMPLES: &str = "\
Examples:
  istioctl kube-inject -f deployment.yaml | kubectl apply -f -
  istioctl kube-inject -f deployment.yaml -o injected.yaml
  kubectl get deployment web -o json | istioctl kube-inject -f - | kubectl apply -f -
  istioctl kube-inject -f deployment.yaml --context production -r canary";
