//! Explanations of which objects are injected, and why the others are not.

use reason::Reason;
use serde::Serialize;

use crate::files::EditedFile;
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
pub(super) fn explanation_table(files: &[EditedFile<'_>]) -> String {
    let rows: Vec<_> = each(files).map(|(file, finding)| row(file, finding)).collect();
    table(&["FILE", "LINE", "OBJECT", "POD TEMPLATE", "RESULT", "REASON"], &rows)
}

/// Returns the table's content as JSON.
pub(super) fn explanation_json(files: &[EditedFile<'_>]) -> String {
    let explanations: Vec<_> =
        each(files).map(|(file, finding)| Explanation::new(file, finding)).collect();
    #[expect(clippy::expect_used, reason = "its keys are strings")]
    let json = serde_json::to_string_pretty(&explanations).expect("an explanation is JSON");
    json + "\n"
}

fn each<'a>(files: &'a [EditedFile<'_>]) -> impl Iterator<Item = (String, &'a Finding)> {
    files
        .iter()
        .flat_map(|file| file.findings.iter().map(move |finding| (file.file.to_string(), finding)))
}

fn row(file: String, finding: &Finding) -> [String; 6] {
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
    [file, finding.line.to_string(), title, template, finding.result.word().to_owned(), reason]
}

impl<'a> Explanation<'a> {
    fn new(file: String, finding: &'a Finding) -> Self {
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
            result: finding.result.word(),
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
