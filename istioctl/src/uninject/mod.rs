//! `istioctl uninject`: removal of the sidecar from the workloads of files.

mod document;
mod tally;

use clap::Args;
use injector::manifest;

use crate::files::{self, InjectedFile};
use crate::inputs::InputFlags;
use crate::kube_inject::{NO_FILE, in_order};
use crate::output_flags::{Destination, OutputFlags};
use crate::{Failure, Outcome, Streams, output};
use document::Uninjected;
use tally::Tally;

/// Remove the sidecar from the workloads of files
///
/// Turns injected pod templates and pods back to what they were before injection by kube-inject, by
/// the webhook, or by Istio. Without settings: the annotation sidecar.istio.io/status names the
/// injected containers and volumes, and the environment of istio-proxy has the original probes and
/// metrics. Everything else stays as it is, byte for byte: comments, order, quoting, other
/// documents, and workloads that are not injected.
///
/// A warning on standard error names each field that injection may have changed without a record,
/// such as the name of a probe's port.
///
/// The command writes nothing if any workload cannot be turned back.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Uninject {
    #[command(flatten)]
    files: InputFlags,
    #[command(flatten)]
    output: OutputFlags,
}

impl Uninject {
    /// Reads, removes the sidecars, and writes only if everything succeeded.
    pub(super) fn run(&self, streams: &mut Streams<'_>) -> Result<Outcome, Failure> {
        if self.output.destination() == Destination::InPlace && self.files.name_standard_input() {
            return Err(Failure::Usage(NO_FILE.to_owned()));
        }
        let inputs = self.files.read(streams).map_err(Failure::Errors)?;
        let rules = self.files.pod_templates();
        let documents: Vec<_> = inputs
            .iter()
            .flat_map(|file| {
                let documents = manifest::Document::split(&file.text).into_iter();
                documents.flat_map(manifest::Document::parts).map(move |part| (file, part))
            })
            .collect();
        let outcomes = in_order(&documents, |(_, document)| Uninjected::new(document, rules));
        let mut restored: Vec<_> = inputs.iter().map(InjectedFile::new).collect();
        let (mut errors, mut changes, mut tally) = (Vec::new(), Vec::new(), Tally::default());
        let mut outcomes = documents.iter().zip(outcomes).peekable();
        for into in &mut restored {
            while let Some(((file, document), outcome)) =
                outcomes.next_if(|((file, _), _)| std::ptr::eq(*file, into.file))
            {
                let place = format!("{file}: document {}", document.number);
                for warning in outcome.warnings {
                    streams.say(&format!("warning: {place}: {warning}"));
                }
                changes.extend(outcome.changes.iter().map(|change| format!("{file}: {change}")));
                tally += outcome.tally;
                match outcome.text {
                    Ok(text) => into.parts.push(text),
                    Err(failed) => {
                        errors.extend(failed.into_iter().map(|error| error.context(place.clone())));
                    }
                }
            }
        }
        if !errors.is_empty() {
            return Err(Failure::Errors(errors));
        }
        let outcome = self.write(restored, &changes, streams).map_err(Failure::from_error)?;
        match &*inputs {
            [file] => streams.say(&format!("{file}: {tally}")),
            files => streams.say(&format!("{} files: {tally}", files.len())),
        }
        Ok(outcome)
    }

    fn write(
        &self,
        restored: Vec<InjectedFile<'_>>,
        changes: &[String],
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Outcome> {
        match self.output.destination() {
            Destination::Check => {
                for change in changes {
                    streams.say(change);
                }
                let changed = restored.iter().any(InjectedFile::is_changed);
                return Ok(if changed { Outcome::WouldChange } else { Outcome::Done });
            }
            Destination::File(path) => output::write_file(path, &files::stream(restored))?,
            Destination::InPlace => files::write_back(&restored)?,
            Destination::StandardOutput => {
                output::write_parts(streams.output, &files::stream(restored))?;
            }
        }
        Ok(Outcome::Done)
    }
}

const EXAMPLES: &str = "\
Examples:
  istioctl uninject -f injected.yaml -o deployment.yaml
  istioctl uninject -R -f manifests --in-place
  istioctl uninject -R -f manifests --check
  kubectl get deployment web -o yaml | istioctl uninject -f - | kubectl apply -f -";
