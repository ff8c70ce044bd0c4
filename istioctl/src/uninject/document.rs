//! Removal of the sidecar from a document, with the messages about it.

use anyhow::anyhow;
use injector::inject::reinject::status::STATUS;
use injector::manifest::{Document, Edit, Manifest, PodTemplateRule};
use injector::uninject::uninject_template;
use reason::{Reason, words};

use crate::files::EditedDocument;
use crate::finding::{Finding, FindingResult, Title, warn_of_lost_comments};

/// Removes the sidecars of a document.
pub(super) fn uninjected_document(
    document: &Document<'_>,
    rules: &[PodTemplateRule],
) -> EditedDocument {
    let manifest = match Manifest::read_by_rules(document, rules) {
        Ok(manifest) => manifest,
        Err(error) => return EditedDocument::unreadable(error, document),
    };
    let (text, mut findings) = uninject_all(document, &manifest);
    findings.extend(other_objects(document, &manifest));
    findings.sort_by_key(|finding| finding.line);
    EditedDocument { text, findings }
}

/// Returns the objects without a known pod template, with a reason for one that holds an injected
/// pod.
fn other_objects(
    document: &Document<'_>,
    manifest: &Manifest<'_>,
) -> impl Iterator<Item = Finding> {
    let is_injected = document.text.contains(STATUS);
    manifest.left_alone().into_iter().map(move |other| {
        let unknown = other.surprise.filter(|_| is_injected);
        let told = [words::UNKNOWN_KIND.as_str(), words::NOT_READ.as_str()];
        let unknown = unknown.filter(|it| told.contains(&it.word()));
        let unknown = unknown.map(|it| match &other.rule {
            Some(rule) => Reason::new(words::UNKNOWN_KIND, it.message().to_owned())
                .with_hint(format!("add --pod-template '{rule}'")),
            None => it,
        });
        Finding {
            document: document.number,
            line: document.line + other.line - 1,
            object: other.object,
            template: None,
            result: FindingResult::NotAWorkload(unknown),
            warnings: Vec::new(),
            patch: None,
        }
    })
}

/// Removes the sidecars of the pod templates of a document.
fn uninject_all(
    document: &Document<'_>,
    manifest: &Manifest<'_>,
) -> (Result<String, Vec<anyhow::Error>>, Vec<Finding>) {
    let (mut parts, mut findings, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for template in manifest.pods() {
        let mut finding = Finding {
            document: document.number,
            line: template.line,
            object: template.workload.clone(),
            template: Some(template.path_in_object().to_owned()),
            result: FindingResult::Unchanged,
            warnings: Vec::new(),
            patch: None,
        };
        match uninject_template(manifest, template) {
            Ok(Some((part, uninjection))) => {
                let patch = uninjection.patch().owned();
                finding.result = FindingResult::Changed;
                finding.template = Some(part.path_in_object().to_owned());
                finding.warnings.clone_from(&uninjection.doubts);
                finding.patch = Some(patch.clone());
                parts.push((part, uninjection, patch));
            }
            Ok(None) => {}
            Err(error) => {
                let annotation = ["metadata", "annotations", STATUS].map(str::to_owned);
                let line = manifest.line_of(template, &annotation);
                let line = line.map_or(template.line, |line| document.line + line - 1);
                let place = format!("line {line}: {}", Title(&template.workload));
                let (word, message) = (words::BAD_STATUS.as_str(), error.to_string());
                finding.result = FindingResult::Rejected { word, message };
                errors.push(anyhow!(error).context(place));
            }
        }
        findings.push(finding);
    }
    if !errors.is_empty() {
        return (Err(errors), findings);
    }
    let edits = parts.iter().map(|(template, uninjection, patch)| Edit {
        template,
        patch,
        pod: &uninjection.pod,
    });
    let text = manifest.edit(&edits.collect::<Vec<_>>());
    let text =
        text.map_err(|error| vec![anyhow!(error).context(format!("line {}", document.line))]);
    if let Ok(text) = &text {
        warn_of_lost_comments(manifest, document, text, &mut findings);
    }
    (text, findings)
}
