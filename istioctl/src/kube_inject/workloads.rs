//! Injection of the workloads of a file, with the messages about each.

use std::collections::BTreeSet;

use anyhow::anyhow;
use injector::inject::{InjectError, Injection, InjectionOutcome, Target, check, inject};
use injector::manifest::{self, Manifest, PodTemplate, PodTemplateRule};
use injector::overlay::error::{OverlayError, TemplateSource};
use injector::settings::annotations::{AnnotationError, key};
use reason::Reason;
use serde_json::Value;

use super::injection_flags::InjectionInputs;
use crate::files::EditedDocument;
use crate::finding::{Finding, FindingResult, Title, warn_of_lost_comments};

/// Parts of an injection that the result is made from, besides the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Keep {
    Patches,
    /// No further parts, because an injected pod takes much memory.
    TextAlone,
}

/// Injects the workloads of a document.
pub(super) fn injected_document(
    inputs: &InjectionInputs,
    document: &manifest::Document<'_>,
    keep: Keep,
) -> EditedDocument {
    let manifest = match Manifest::read_by_rules(document, &inputs.pod_templates) {
        Ok(manifest) => manifest,
        Err(error) => return EditedDocument::unreadable(error, document),
    };
    let (text, mut findings) = inject_all(inputs, document, &manifest, keep);
    findings.extend(manifest.left_alone().into_iter().map(|alone| Finding {
        document: document.number,
        line: document.line + alone.line - 1,
        object: alone.object,
        template: None,
        result: FindingResult::NotAWorkload(alone.surprise),
        warnings: Vec::new(),
        patch: None,
    }));
    findings.sort_by_key(|finding| finding.line);
    EditedDocument { text, findings }
}

/// Injects the pod templates of a document.
fn inject_all(
    inputs: &InjectionInputs,
    document: &manifest::Document<'_>,
    manifest: &Manifest<'_>,
    keep: Keep,
) -> (Result<String, Vec<anyhow::Error>>, Vec<Finding>) {
    let mut injections: Vec<(usize, &PodTemplate, Box<Injection>, json_patch::Patch)> = Vec::new();
    let (mut findings, mut errors) = (Vec::new(), Vec::new());
    for template in manifest.pods() {
        if let Some(reason) = template.stays() {
            let result = FindingResult::NotAWorkload(Some(reason));
            findings.push(Finding { template: None, ..finding(document, template, result) });
            continue;
        }
        let (result, warnings) = match injected_template(inputs, manifest, template) {
            Ok(InjectionOutcome::Injected(mut injection)) => {
                let mut warnings = misplaced(manifest, template, true);
                warnings.append(&mut injection.warnings);
                let patch = injection.patch().owned();
                let unchanged = patch.is_empty();
                injections.push((findings.len(), template, injection, patch));
                let result =
                    if unchanged { FindingResult::Unchanged } else { FindingResult::Changed };
                (result, warnings)
            }
            Ok(InjectionOutcome::Skipped { reason, mut warnings }) => {
                warnings.extend(misplaced(manifest, template, false));
                (FindingResult::Skipped(reason), warnings)
            }
            Err(error) => {
                let rejected =
                    FindingResult::Rejected { word: error.word(), message: error.to_string() };
                errors.extend(placed_errors(error, document, manifest, template));
                (rejected, Vec::new())
            }
        };
        findings.push(Finding { warnings, ..finding(document, template, result) });
    }
    if !errors.is_empty() {
        return (Err(errors), findings);
    }
    let mut edits = Vec::new();
    for (_, template, injection, patch) in &injections {
        edits.push(manifest::Edit { template, patch, pod: &injection.pod });
    }
    let text = manifest.edit(&edits);
    drop(edits);
    if keep == Keep::Patches {
        for (at, _, _, patch) in injections {
            findings[at].patch = Some(patch);
        }
    }
    let text =
        text.map_err(|error| vec![anyhow!(error).context(format!("line {}", document.line))]);
    if let Ok(text) = &text {
        warn_of_lost_comments(manifest, document, text, &mut findings);
    }
    (text, findings)
}

/// Returns the warnings about labels and annotations outside of the pod template.
fn misplaced(manifest: &Manifest<'_>, template: &PodTemplate, injected: bool) -> Vec<Reason> {
    check::misplaced::warnings(manifest.object(template), template.path_in_object(), injected)
}

/// Returns the finding for a pod template, without warnings.
fn finding(
    document: &manifest::Document<'_>,
    template: &PodTemplate,
    result: FindingResult,
) -> Finding {
    Finding {
        document: document.number,
        line: template.line,
        object: template.workload.clone(),
        template: Some(template.path_in_object().to_owned()),
        result,
        warnings: Vec::new(),
        patch: None,
    }
}

/// Injects a pod template.
pub(crate) fn injected_template(
    inputs: &InjectionInputs,
    manifest: &Manifest<'_>,
    template: &PodTemplate,
) -> Result<InjectionOutcome, InjectError> {
    let pod = manifest.pod(template);
    let namespace = namespace_of(pod, template, &inputs.namespace);
    let mut workload = template.workload.clone();
    if workload.namespace.is_empty() {
        namespace.clone_into(&mut workload.namespace);
    }
    let target = Target {
        pod: pod.clone(),
        namespace,
        cluster: inputs.snapshot.facts(namespace, pod),
        // The owner of a pod is derived from its own metadata.
        workload: (!template.is_pod()).then_some(workload),
        path_env: &inputs.path_env,
        rules: inputs.rules,
    };
    inject(&inputs.settings, target)
}

/// Returns the single errors of an injection, each with its line in the file and the workload.
pub(crate) fn placed_errors(
    error: InjectError,
    document: &manifest::Document<'_>,
    manifest: &Manifest<'_>,
    template: &PodTemplate,
) -> impl Iterator<Item = anyhow::Error> {
    faults(error).into_iter().map(|(path, error)| {
        let line = manifest.line_of(template, &path);
        let line = line.map_or(template.line, |line| document.line + line - 1);
        error.context(format!("line {line}: {}", Title(&template.workload)))
    })
}

/// Splits an error into single errors, each with the keys that lead to its place in the pod
/// template.
fn faults(error: InjectError) -> Vec<(Vec<String>, anyhow::Error)> {
    let annotation = |key: &str| ["metadata", "annotations", key].map(str::to_owned).to_vec();
    match error {
        InjectError::Annotations(errors) => {
            let fault = |error: AnnotationError| (annotation(&error.key), error.into());
            errors.into_iter().map(fault).collect()
        }
        InjectError::Overlay(OverlayError::NotFound {
            requested_by: TemplateSource::Annotation,
            ..
        }) => {
            vec![(annotation(key::TEMPLATES), error.into())]
        }
        InjectError::Form { ref path, .. } => vec![(path.clone(), error.into())],
        other => vec![(Vec::new(), other.into())],
    }
}

/// Returns the namespaces of the workloads of a file; invalid documents are skipped.
pub(super) fn namespaces(text: &str, rules: &[PodTemplateRule], default: &str) -> BTreeSet<String> {
    let documents = manifest::Document::split(text).into_iter();
    let parts = documents.flat_map(manifest::Document::parts);
    let manifests = parts.filter_map(|part| Manifest::read_by_rules(&part, rules).ok());
    let of_manifest = |manifest: Manifest<'_>| {
        let templates = manifest.pods().iter();
        let name = |template| namespace_of(manifest.pod(template), template, default).to_owned();
        templates.map(name).collect::<Vec<_>>()
    };
    manifests.flat_map(of_manifest).collect()
}

/// Returns the namespace of a pod: its own, its workload's, or else the default.
fn namespace_of<'a>(pod: &'a Value, template: &'a PodTemplate, default: &'a str) -> &'a str {
    let own = pod.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let namespaces = [own, &template.workload.namespace, default];
    namespaces.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
}
