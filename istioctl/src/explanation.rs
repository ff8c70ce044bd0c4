//! Explanations of which objects change, and why the others do not.

use reason::Reason;
use serde::Serialize;

use crate::files::{EditedFile, each_finding};
use crate::finding::{Finding, FindingResult, Title};
use crate::table::table;

/// Result for a pod template, or for an object without one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation<'a> {
    file: String,
    document: usize,
    line: usize,
    api_version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// Path of the pod template in the object.
    pod_template: Option<String>,
    result: &'static str,
    #[serde(flatten)]
    reason: Option<Cause<'a>>,
    warnings: Vec<Cause<'a>>,
}

#[derive(Debug, Serialize)]
struct Cause<'a> {
    reason: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

/// Returns a table with a row for each pod template and each object without one.
///
/// `change` is the word for an object that changes.
pub(super) fn explanation_table(files: &[EditedFile<'_>], change: &'static str) -> String {
    let rows = each_finding(files).map(|(file, finding)| row(file.to_string(), finding, change));
    let rows: Vec<_> = rows.collect();
    table(&["FILE", "LINE", "OBJECT", "POD TEMPLATE", "RESULT", "REASON"], &rows)
}

/// Returns the table's content as JSON.
pub(super) fn explanation_json(files: &[EditedFile<'_>], change: &'static str) -> String {
    let explanations = each_finding(files)
        .map(|(file, finding)| Explanation::new(file.to_string(), finding, change));
    let explanations: Vec<_> = explanations.collect();
    #[expect(clippy::expect_used, reason = "its keys are strings")]
    let json = serde_json::to_string_pretty(&explanations).expect("an explanation is JSON");
    json + "\n"
}

fn row(file: String, finding: &Finding, change: &'static str) -> [String; 6] {
    let reason = match &finding.result {
        FindingResult::Changed | FindingResult::Unchanged => String::new(),
        FindingResult::NotAWorkload(reason) => {
            reason.as_ref().map(ToString::to_string).unwrap_or_default()
        }
        FindingResult::Rejected { word, message } => format!("{message} ({word})"),
        FindingResult::Skipped(reason) => reason.to_string(),
    };
    let template = finding.template.as_ref().map(|path| path.join(".")).unwrap_or_default();
    let title = Title(&finding.object).to_string();
    let result = finding.result.word(change).to_owned();
    [file, finding.line.to_string(), title, template, result, reason]
}

impl<'a> Explanation<'a> {
    fn new(file: String, finding: &'a Finding, change: &'static str) -> Self {
        let object = &finding.object;
        let reason = match &finding.result {
            FindingResult::Changed | FindingResult::Unchanged => None,
            FindingResult::NotAWorkload(reason) => reason.as_ref().map(Cause::new),
            FindingResult::Rejected { word, message } => {
                Some(Cause { reason: word, message, hint: None })
            }
            FindingResult::Skipped(reason) => Some(Cause::new(reason)),
        };
        Self {
            file,
            document: finding.document,
            line: finding.line,
            api_version: &object.api_version,
            kind: &object.kind,
            namespace: &object.namespace,
            name: &object.name,
            pod_template: finding.template.as_ref().map(|path| path.join(".")),
            result: finding.result.word(change),
            reason,
            warnings: finding.warnings.iter().map(Cause::new).collect(),
        }
    }
}

impl<'a> Cause<'a> {
    fn new(reason: &'a Reason) -> Self {
        Self { reason: reason.word(), message: reason.message(), hint: reason.hint() }
    }
}
