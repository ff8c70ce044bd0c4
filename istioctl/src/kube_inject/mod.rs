//! `istioctl kube-inject`: sidecar injection for the workloads of files.

mod cluster_state;
mod document_flags;
pub(crate) mod injection_flags;
mod operator_file;
mod tally;
mod webhook;
pub(crate) mod workloads;

use clap::Args;

use crate::cluster::ClusterClient;
use crate::exit_code::CommandOutcome;
use crate::files::{
    EditedFile, are_without_templates, each_finding, edit_all, warn_of_unused_rules,
};
use crate::inputs::InputFlags;
use crate::output_flags::{Destination, OutputFlags, TextForm};
use crate::{Failure, Streams};
use injection_flags::InjectionFlags;
use tally::InjectionTally;
use workloads::{Keep, injected_document};

/// Add the sidecar to the workloads of files
///
/// Only pod templates change, and in them only what injection adds or replaces: comments, order,
/// quoting, anchors and unknown fields stay as they are, and so do documents of other kinds. YAML
/// stays YAML, JSON stays JSON. Injecting twice gives the same as injecting once.
///
/// Supported kinds are Deployment, DaemonSet, ReplicaSet, StatefulSet (apps/v1), Job, CronJob
/// (batch/v1), Pod, ReplicationController, List (v1) and DeploymentConfig (apps.openshift.io/v1 and
/// v1); of old API versions, Deployment, DaemonSet, ReplicaSet (extensions/v1beta1) and CronJob
/// (batch/v1beta1); in any version, Rollout (argoproj.io) and JobSet (jobset.x-k8s.io).
/// --pod-template adds others. Objects of Knative stay as they are, with a warning: Knative rejects
/// an injected template, and the webhook injects its pods.
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
    /// template, one of Knative, a kind in the wrong letter case, a workload without apiVersion, a
    /// document that is not YAML or not an object, or a pod on the node's network or on Windows
    #[arg(long)]
    strict: bool,
}

impl KubeInject {
    /// Reads, injects, and writes only if everything succeeded.
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<CommandOutcome, Failure> {
        let destination = self.output.destination()?;
        self.files.refuse_standard_input(destination)?;
        let files = self.files.read(streams).map_err(Failure::Errors)?;
        let inputs =
            self.injection.inputs((&files, self.files.pod_templates()), cluster_client, streams);
        let inputs = inputs.map_err(Failure::from_error)?;
        let keep = match destination {
            Destination::StandardOutput(TextForm::Patch) => Keep::Patches,
            _ => Keep::TextAlone,
        };
        let (injected, mut errors) =
            edit_all(&files, |document| injected_document(&inputs, document, keep));
        errors.extend(self.report(&injected, destination, streams));
        if errors.is_empty() {
            warn_of_unused_rules(self.files.pod_templates(), &injected, streams);
        }
        errors.extend(destination.explain(&injected, CHANGE, streams).err());
        if !errors.is_empty() {
            return Err(Failure::Errors(errors));
        }
        let mut tally = InjectionTally::default();
        each_finding(&injected).for_each(|(_, finding)| tally.add(finding));
        destination.write(injected, CHANGE, &tally, streams)
    }

    /// Prints the messages about all objects. Returns those that are errors.
    fn report(
        &self,
        files: &[EditedFile<'_>],
        destination: Destination<'_>,
        streams: &mut Streams<'_>,
    ) -> Vec<anyhow::Error> {
        let explained = matches!(destination, Destination::Explanation { .. });
        let nothing = are_without_templates(files);
        let mut errors = Vec::new();
        for (file, finding) in each_finding(files) {
            let place = format!("{file}: document {}", finding.document);
            let before = format!("{place}: ");
            let unasked = finding.unasked_skip(&place).filter(|_| self.strict);
            let is_told = explained || unasked.is_some();
            let skipped = finding.skip_message(&before).filter(|_| !is_told);
            errors.extend(unasked);
            for message in skipped.into_iter().chain(finding.warning_messages(&before)) {
                streams.say(&message);
            }
            match finding.surprise(&place) {
                Some(surprise) if self.strict || nothing && finding.is_unrendered() => {
                    errors.push(surprise);
                }
                Some(surprise) if !explained => streams.say(&format!("warning: {surprise:#}")),
                _ => {}
            }
        }
        errors
    }
}

/// Word for an object that changes.
const CHANGE: &str = "injected";

const EXAMPLES: &str = "\
Examples:
  istioctl kube-inject -f deployment.yaml | kubectl apply -f -
  istioctl kube-inject -f deployment.yaml -o injected.yaml
  istioctl kube-inject -R -f manifests --check
  istioctl kube-inject -R -f manifests -o diff | less
  istioctl kube-inject -f rollout.yaml --explain
  kubectl get deployment web -o json | istioctl kube-inject -f - | kubectl apply -f -
  istioctl kube-inject -f deployment.yaml --context production -r canary";
