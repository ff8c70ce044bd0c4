//! `istioctl uninject`: removal of the sidecar from the workloads of files.

mod document;
mod tally;

use clap::Args;
use injector::manifest::Document;

use crate::exit_code::CommandOutcome;
use crate::files::{are_without_templates, each_finding, edit_all, warn_of_unused_rules};
use crate::inputs::InputFlags;
use crate::output_flags::{Destination, OutputFlags};
use crate::{Failure, Streams};
use document::uninjected_document;
use tally::UninjectionTally;

/// Remove the sidecar from the workloads of files
///
/// Turns injected pod templates and pods back to what they were before injection by kube-inject, by
/// the webhook, or by Istio. Without settings: the annotation sidecar.istio.io/status names the
/// injected containers and volumes, the environment of istio-proxy has the original probes and
/// metrics, and sidecar.outrigger.io/original has what else the pod does not show. Everything else
/// stays as it is, byte for byte: comments, order, quoting, other documents, and workloads that are
/// not injected.
///
/// Istio does not record everything. A warning on standard error names each field that it may have
/// changed without a record, such as the name of a probe's port.
///
/// The command writes nothing if any workload cannot be turned back.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Uninject {
    #[command(flatten)]
    files: InputFlags,
    #[command(flatten)]
    output: OutputFlags,
    /// Fail if an injected object stays, because its kind or API version is unknown
    #[arg(long)]
    strict: bool,
}

impl Uninject {
    /// Reads, removes the sidecars, and writes only if everything succeeded.
    pub(super) fn run(&self, streams: &mut Streams<'_>) -> Result<CommandOutcome, Failure> {
        let destination = self.output.destination()?;
        self.files.refuse_standard_input(destination)?;
        let files = self.files.read(streams).map_err(Failure::Errors)?;
        let rules = self.files.pod_templates();
        let edit = |document: &Document<'_>| uninjected_document(document, rules);
        let (restored, mut errors) = edit_all(&files, edit);
        let explained = matches!(destination, Destination::Explanation { .. });
        let nothing = are_without_templates(&restored);
        let mut tally = UninjectionTally::default();
        for (file, finding) in each_finding(&restored) {
            let place = format!("{file}: document {}", finding.document);
            for message in finding.warning_messages(&format!("{place}: ")) {
                streams.say(&message);
            }
            match finding.surprise(&place) {
                Some(unknown) if self.strict || nothing && finding.is_unrendered() => {
                    errors.push(unknown);
                }
                Some(unknown) if !explained => streams.say(&format!("warning: {unknown:#}")),
                _ => {}
            }
            tally.add(finding);
        }
        if errors.is_empty() {
            warn_of_unused_rules(self.files.pod_templates(), &restored, streams);
        }
        errors.extend(destination.explain(&restored, CHANGE, streams).err());
        if !errors.is_empty() {
            return Err(Failure::Errors(errors));
        }
        destination.write(restored, CHANGE, &tally, streams)
    }
}

/// Word for an object that changes.
const CHANGE: &str = "uninjected";

const EXAMPLES: &str = "\
Examples:
  istioctl uninject -f injected.yaml -o deployment.yaml
  istioctl uninject -R -f manifests --in-place
  istioctl uninject -R -f manifests -o diff | less
  istioctl uninject -R -f manifests --check
  istioctl uninject -f injected.yaml --explain
  kubectl get deployment web -o yaml | istioctl uninject -f - | kubectl replace -f -";
