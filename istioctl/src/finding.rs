//! Results for single objects of a file, and the messages about them.

use std::fmt;

use anyhow::anyhow;
use injector::kubernetes::workload::Workload;
use injector::manifest::{Document, Manifest};
use json_patch::Patch;
use reason::words::Word;
use reason::{Reason, words};

use crate::printable::Printable;

/// Result for a pod template, or for an object without one.
#[derive(Debug)]
pub(super) struct Finding {
    /// The document's number in the file, from 1.
    pub(super) document: usize,
    /// The line of the file at which the object starts, from 1.
    pub(super) line: usize,
    pub(super) object: Workload,
    /// The keys and indexes that lead from the object to the pod template, if it has one.
    pub(super) template: Option<Vec<String>>,
    pub(super) result: FindingResult,
    pub(super) warnings: Vec<Reason>,
    /// The patch that turns the pod template into the injected one, if patches are kept.
    pub(super) patch: Option<Patch>,
}

/// Decision about an object.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum FindingResult {
    /// The pod template changes.
    Changed,
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

/// Adds a warning to the changed objects of a document about the comments that its new text lacks.
pub(super) fn warn_of_lost_comments(
    manifest: &Manifest<'_>,
    document: &Document<'_>,
    text: &str,
    findings: &mut [Finding],
) {
    let lost = manifest.comments_lost(text).into_iter().map(|line| document.line + line - 1);
    let lost: Vec<_> = lost.collect();
    let mut from = 0;
    for at in 0..findings.len() {
        if findings[at].result != FindingResult::Changed {
            continue;
        }
        let mut later = findings[at + 1..].iter();
        let next = later.find(|later| later.result == FindingResult::Changed);
        let end = next.map_or(usize::MAX, |next| next.line.max(from));
        let lines = lost.iter().filter(|line| (from..end).contains(line));
        let lines: Vec<_> = lines.map(ToString::to_string).collect();
        from = end;
        if !lines.is_empty() {
            let message = format!(
                "the comments of line {} are lost, because the field around them is rewritten",
                lines.join(", ")
            );
            findings[at].warnings.push(Reason::new(words::COMMENTS_LOST, message));
        }
    }
}

impl Finding {
    /// Returns the message about a skipped workload: Istio's wording, which scripts look for, and
    /// the reason. `place` names the document.
    pub(super) fn skip_message(&self, place: &str) -> Option<String> {
        let FindingResult::Skipped(reason) = &self.result else { return None };
        let words = match reason.word() {
            "host_network" => "has host networking enabled",
            _ => "has sidecar injection disabled",
        };
        let title = Title(&self.object);
        Some(format!("===> Skipping injection because {title} {words}\n     {place}{reason}"))
    }

    /// Returns the error about a workload that is skipped although no setting asks for it, as by
    /// host networking.
    pub(super) fn unasked_skip(&self, place: &str) -> Option<anyhow::Error> {
        let FindingResult::Skipped(reason) = &self.result else { return None };
        let is_unasked = UNASKED.iter().any(|word| word.as_str() == reason.word());
        let title = Title(&self.object);
        let place = format!("{place}: line {}: {title}", self.line);
        is_unasked.then(|| anyhow!("{reason}").context(place))
    }

    /// Returns the warnings; `place` names the document.
    pub(super) fn warning_messages(&self, place: &str) -> Vec<String> {
        let title = Title(&self.object);
        let warning = |reason| format!("warning: {place}{title}: {reason}");
        self.warnings.iter().map(warning).collect()
    }

    /// True for an input of kustomize or Helm.
    pub(super) fn is_unrendered(&self) -> bool {
        let word = words::NOT_RENDERED.as_str();
        matches!(&self.result, FindingResult::NotAWorkload(Some(reason)) if reason.word() == word)
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

/// Reasons to skip a workload that are neither an opt-out nor a choice of the configuration.
const UNASKED: [&Word; 3] = [words::HOST_NETWORK, words::UNKNOWN_POLICY, words::WINDOWS];

impl FindingResult {
    /// Returns the decision in a word, for scripts; `change` is the word for a change.
    pub(super) fn word(&self, change: &'static str) -> &'static str {
        match self {
            Self::Changed => change,
            Self::NotAWorkload(_) => "not_a_workload",
            Self::Rejected { .. } => "rejected",
            Self::Skipped(_) => "skipped",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Display of an object as `Deployment "namespace/name"`, with the parts that it has.
pub(super) struct Title<'a>(pub(super) &'a Workload);

impl fmt::Display for Title<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Workload { kind, name, namespace, .. } = self.0;
        let space = if kind.is_empty() { "" } else { " " };
        let [kind, name, namespace] =
            [kind, name, namespace].map(|text| Printable(text).to_string());
        match (namespace.as_str(), name.as_str()) {
            ("", "") => f.write_str(&kind),
            ("", name) => write!(f, "{kind}{space}\"{name}\""),
            (namespace, name) => write!(f, "{kind}{space}\"{namespace}/{name}\""),
        }
    }
}
