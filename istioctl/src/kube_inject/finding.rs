//! Results of the injection of single objects, and the messages about them.

use std::fmt;

use anyhow::anyhow;
use injector::kubernetes::workload::Workload;
use reason::Reason;

/// Result for a pod template, or for an object without one.
#[derive(Debug)]
pub(super) struct Finding {
    /// The line of the file at which the object starts, from 1.
    pub(super) line: usize,
    pub(super) object: Workload,
    pub(super) result: FindingResult,
    pub(super) warnings: Vec<Reason>,
}

/// Decision about an object.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum FindingResult {
    /// The pod template changes.
    Injected,
    /// The object is no workload of a known kind. The reason is for authors who may have expected
    /// an injection.
    NotAWorkload(Option<Reason>),
    /// The pod template cannot be injected.
    Rejected {
        /// The word of the reason.
        word: &'static str,
        message: String,
    },
    /// The pod template stays as it is.
    Skipped(Reason),
    /// The pod template is injected already.
    Unchanged,
}

impl Finding {
    /// Returns the messages about the object; `place` comes before them.
    pub(super) fn messages(&self, place: &str) -> Vec<String> {
        let title = Title(&self.object);
        let skipped = match &self.result {
            FindingResult::Skipped(reason) => Some(skipped(&title, reason, place)),
            _ => None,
        };
        let warning = |reason| format!("warning: {place}{title}: {reason}");
        skipped.into_iter().chain(self.warnings.iter().map(warning)).collect()
    }

    /// Returns the warning about an object whose author may have expected an injection.
    pub(super) fn surprise(&self, place: &str) -> Option<anyhow::Error> {
        let FindingResult::NotAWorkload(Some(reason)) = &self.result else { return None };
        let title = Title(&self.object).to_string();
        let place = format!("{place}: line {}", self.line);
        let place = if title.is_empty() { place } else { format!("{place}: {title}") };
        Some(anyhow!("{reason}").context(place))
    }
}

/// Returns the message about a skipped workload: Istio's wording, which scripts look for, and the
/// reason.
fn skipped(title: &Title<'_>, reason: &Reason, place: &str) -> String {
    let words = match reason.word() {
        "host_network" => "has host networking enabled",
        _ => "has sidecar injection disabled",
    };
    format!("===> Skipping injection because {title} {words}\n     {place}{reason}")
}

/// Display of an object as `Deployment "namespace/name"`, with the parts that it has.
pub(super) struct Title<'a>(pub(super) &'a Workload);

impl fmt::Display for Title<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Workload { kind, name, namespace, .. } = self.0;
        let space = if kind.is_empty() { "" } else { " " };
        match (namespace.as_str(), name.as_str()) {
            ("", "") => f.write_str(kind),
            ("", name) => write!(f, "{kind}{space}\"{name}\""),
            (namespace, name) => write!(f, "{kind}{space}\"{namespace}/{name}\""),
        }
    }
}
