//! Inputs of kustomize and Helm, which are no objects until these tools render them.

use std::path::Path;

use anyhow::anyhow;
use injector::manifest::{Document, ManifestError};
use reason::{Reason, words};

use crate::finding::{Finding, FindingResult};
use crate::inputs::InputFile;

/// An input file of kustomize or Helm.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Unrendered {
    message: &'static str,
    /// Command that prints the objects.
    command: String,
}

impl Unrendered {
    /// Recognises a file by its name.
    pub(crate) fn by_name(file: &InputFile) -> Option<Self> {
        let path = file.path.as_deref()?;
        let (message, command) = match path.file_name()?.to_str()? {
            "kustomization.yaml" | "kustomization.yml" | "Kustomization" => {
                ("it is a kustomization, not an object", "kubectl kustomize")
            }
            "Chart.yaml" => ("it describes a Helm chart, and is not an object", "helm template"),
            _ => return None,
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        Some(Self { message, command: format!("{command} {}", folder.display()) })
    }

    /// Returns the reason why the file has no workload.
    pub(crate) fn reason(&self) -> Reason {
        let hint = format!("pass the output of `{}` instead", self.command);
        Reason::new(words::NOT_RENDERED, self.message).with_hint(hint)
    }
}

/// Adds the reason to an object of such a file.
pub(crate) fn explained(mut finding: Finding, file: &InputFile) -> Finding {
    let object = &finding.object;
    // Flux has a kind of this name, too.
    let is_input = object.kind.is_empty() || object.api_version.starts_with(KUSTOMIZE);
    if let FindingResult::NotAWorkload(reason) = &mut finding.result
        && is_input
        && let Some(unrendered) = Unrendered::by_name(file)
    {
        *reason = Some(unrendered.reason());
    }
    finding
}

/// Returns the error of a document, with a hint if it looks like a template of a Helm chart.
pub(crate) fn unreadable(error: ManifestError, document: &Document<'_>) -> anyhow::Error {
    let error = anyhow::Error::from(error);
    if document.text.lines().any(is_action) { anyhow!("{error:#}{TEMPLATE}") } else { error }
}

/// True for a line or a value that begins with an action of a Go template.
fn is_action(line: &str) -> bool {
    let value = line.split_once(": ").map_or(line, |(_, value)| value);
    value.trim_start_matches([' ', '-']).starts_with("{{")
}

const KUSTOMIZE: &str = "kustomize.config.k8s.io/";
const TEMPLATE: &str = "; hint: this looks like a template of a Helm chart: pass the output of \
                        `helm template CHART` instead";
