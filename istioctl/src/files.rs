//! Edited files, and the forms in which they are written.

use std::path::{Component, Path};
use std::{fmt, fs};

use anyhow::{Context, ensure};
use documents::yaml;
use injector::manifest::{Document, ManifestError, PodTemplateRule};
use local_files::NewContent;

use crate::conversion::{self, ConversionError};
use crate::exit_code::CommandOutcome;
use crate::explanation::{explanation_json, explanation_table};
use crate::finding::{Finding, FindingResult, Title};
use crate::inputs::{InputFile, STANDARD};
use crate::output::{self, NEW_FILE};
use crate::output_flags::{Destination, TextForm};
use crate::parallel::in_order;
use crate::unified_diff::unified_diff;
use crate::workload_patch::patch_lines;
use crate::{Failure, Streams, unrendered};

/// A file after the edits.
#[derive(Debug)]
pub(super) struct EditedFile<'a> {
    pub(super) file: &'a InputFile,
    /// The old and the new text of each part.
    pub(super) parts: Vec<(&'a str, String)>,
    /// The results for its objects.
    pub(super) findings: Vec<Finding>,
}

/// A document after the edits.
pub(super) struct EditedDocument {
    /// The new text, or the errors.
    pub(super) text: Result<String, Vec<anyhow::Error>>,
    /// One result for each pod template and each object without one, in the order of their lines.
    pub(super) findings: Vec<Finding>,
}

impl EditedDocument {
    /// Returns the result for a document that cannot be read.
    pub(super) fn unreadable(error: ManifestError, document: &Document<'_>) -> Self {
        Self { text: Err(vec![unrendered::unreadable(error, document)]), findings: Vec::new() }
    }
}

/// Edits the documents of all files on all cores. Returns the files and all errors.
pub(super) fn edit_all(
    files: &[InputFile],
    edit: impl Fn(&Document<'_>) -> EditedDocument + Sync,
) -> (Vec<EditedFile<'_>>, Vec<anyhow::Error>) {
    let documents: Vec<_> = files
        .iter()
        .flat_map(|file| {
            let documents = Document::split(&file.text).into_iter();
            documents.flat_map(Document::parts).map(move |part| (file, part))
        })
        .collect();
    let outcomes = in_order(&documents, |(_, document)| edited(document, &edit));
    let mut edited: Vec<_> = files.iter().map(EditedFile::new).collect();
    let mut errors = Vec::new();
    let mut outcomes = documents.into_iter().zip(outcomes).peekable();
    for into in &mut edited {
        while let Some(((file, document), outcome)) =
            outcomes.next_if(|((file, _), _)| std::ptr::eq(*file, into.file))
        {
            let place = || format!("{file}: document {}", document.number);
            match outcome.text {
                Ok(text) => into.parts.push((document.text, text)),
                Err(failed) => {
                    errors.extend(failed.into_iter().map(|error| error.context(place())));
                }
            }
            let findings = outcome.findings.into_iter();
            into.findings.extend(findings.map(|finding| unrendered::explained(finding, file)));
        }
    }
    (edited, errors)
}

/// Edits a document. A quoted string may continue in any column, as for Go's parser: such lines are
/// indented for the edit.
fn edited(
    document: &Document<'_>,
    edit: impl Fn(&Document<'_>) -> EditedDocument,
) -> EditedDocument {
    let outcome = edit(document);
    if outcome.text.is_ok() || !outcome.findings.is_empty() {
        return outcome;
    }
    let Some(indented) = yaml::indented(document.text) else { return outcome };
    let outcome = edit(&document.with_text(&indented));
    EditedDocument { text: outcome.text.map(|text| yaml::outdented(&text)), ..outcome }
}

/// Returns the results for the objects of all files.
pub(super) fn each_finding<'a>(
    files: &'a [EditedFile<'_>],
) -> impl Iterator<Item = (&'a InputFile, &'a Finding)> {
    files.iter().flat_map(|file| file.findings.iter().map(|finding| (file.file, finding)))
}

/// True if no file has a pod template.
pub(super) fn are_without_templates(files: &[EditedFile<'_>]) -> bool {
    each_finding(files).all(|(_, finding)| finding.template.is_none())
}

/// Warns of rules by which no pod template was found.
pub(super) fn warn_of_unused_rules(
    rules: &[PodTemplateRule],
    files: &[EditedFile<'_>],
    streams: &mut Streams<'_>,
) {
    for rule in rules {
        let is_used = each_finding(files).any(|(_, finding)| {
            finding.template.as_ref().is_some_and(|path| rule.names(path, &finding.object))
        });
        if !is_used {
            streams.say(&format!(
                "warning: --pod-template {rule}: no object has a pod template there; hint: \
                 compare kind, API group and path with the objects"
            ));
        }
    }
}

impl Destination<'_> {
    /// Writes the results for all objects, if they are wanted; `change` names the change.
    pub(super) fn explain(
        self,
        files: &[EditedFile<'_>],
        change: &'static str,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<()> {
        let text = match self {
            Self::Explanation { json: false } => explanation_table(files, change),
            Self::Explanation { json: true } | Self::Check { json: true } => {
                explanation_json(files, change)
            }
            _ => return Ok(()),
        };
        output::write(streams.output, &text)
    }

    /// Writes the files, or lists the workloads to be changed; `change` names the change. Ends with
    /// a summary of the objects in `tally`.
    pub(super) fn write(
        self,
        files: Vec<EditedFile<'_>>,
        change: &str,
        tally: &impl fmt::Display,
        streams: &mut Streams<'_>,
    ) -> Result<CommandOutcome, Failure> {
        let count = files.len();
        let changed = files.iter().filter(|file| file.is_changed()).count();
        let mut summary = format!("{}: {tally}", title(&files));
        let mut outcome = CommandOutcome::Done;
        match self {
            Self::Check { json } => {
                if !json {
                    list_changes(&files, change, streams);
                }
                summary = format!("{changed} of {count} files would change");
                outcome =
                    if changed > 0 { CommandOutcome::WouldChange } else { CommandOutcome::Done };
            }
            Self::Explanation { .. } => {}
            Self::File(path) => {
                output::write_file(path, &stream(files)).map_err(Failure::from_error)?;
            }
            Self::InPlace => {
                write_back(&files).map_err(Failure::from_error)?;
                summary = format!("{summary}; {changed} of {count} files changed");
            }
            Self::StandardOutput(form) => {
                let parts = form.render(files).map_err(Failure::Errors)?;
                output::write_parts(streams.output, &parts).map_err(Failure::from_error)?;
            }
        }
        streams.say(&summary);
        Ok(outcome)
    }
}

/// Lists the workloads that would change.
fn list_changes(files: &[EditedFile<'_>], change: &str, streams: &mut Streams<'_>) {
    let changed = each_finding(files).filter(|(_, it)| it.result == FindingResult::Changed);
    let lines = changed.map(|(file, Finding { line, object, .. })| {
        format!("{file}: line {line}: {} would be {change}", Title(object))
    });
    let mut lines: Vec<_> = lines.collect();
    // An object may have several pod templates.
    lines.dedup();
    for line in &lines {
        streams.say(line);
    }
}

/// Returns the name of the files for the summary.
pub(super) fn title(files: &[EditedFile<'_>]) -> String {
    match files {
        [file] => file.file.to_string(),
        files => format!("{} files", files.len()),
    }
}

impl<'a> EditedFile<'a> {
    /// Returns the file without text.
    fn new(file: &'a InputFile) -> Self {
        Self { file, parts: Vec::new(), findings: Vec::new() }
    }

    /// True if the new text differs from the old one.
    fn is_changed(&self) -> bool {
        self.parts.iter().any(|(old, new)| old != new)
    }

    /// Returns the new text, in parts.
    fn texts(&self) -> Vec<&str> {
        self.parts.iter().map(|(_, new)| new.as_str()).collect()
    }
}

impl TextForm {
    /// Returns the files in this form, in parts.
    fn render(self, files: Vec<EditedFile<'_>>) -> Result<Vec<String>, Vec<anyhow::Error>> {
        match self {
            Self::Diff => Ok(in_order(&files, |file| {
                let name = match &file.file.path {
                    Some(path) => name_in_diff(path),
                    None => STANDARD.to_owned(),
                };
                let parts = file.parts.iter().map(|(old, new)| (*old, new.as_str()));
                unified_diff(&name, parts)
            })),
            Self::Json => Ok(converted(&files, conversion::to_json)?
                .into_iter()
                .map(|(_, text)| text)
                .collect()),
            Self::Kept => Ok(stream(files)),
            Self::Patch => Ok(patch_lines(&files)),
            Self::Yaml => {
                let texts = converted(&files, conversion::to_yaml)?;
                Ok(stream(
                    texts
                        .into_iter()
                        // An empty file has no document.
                        .filter(|(_, text)| !text.is_empty())
                        .map(|(file, text)| EditedFile {
                            parts: vec![("", text)],
                            ..EditedFile::new(file)
                        })
                        .collect(),
                ))
            }
        }
    }
}

/// Returns the name of a file for `patch -p1` in the working directory, or in `/` for an absolute
/// path and one outside the working directory: `patch` and git accept no `..`.
fn name_in_diff(path: &Path) -> String {
    let is_outside = path.components().any(|part| part == Component::ParentDir);
    let found = if is_outside { fs::canonicalize(path).ok() } else { None };
    let name = found.as_deref().unwrap_or(path).to_string_lossy();
    name.trim_start_matches("./").trim_start_matches('/').to_owned()
}

/// Returns the new text of each file after a conversion.
fn converted<'a>(
    files: &[EditedFile<'a>],
    convert: impl Fn(&str) -> Result<String, ConversionError> + Sync,
) -> Result<Vec<(&'a InputFile, String)>, Vec<anyhow::Error>> {
    let results = in_order(files, |file| {
        convert(&file.texts().concat()).with_context(|| file.file.to_string())
    });
    let (mut texts, mut errors) = (Vec::new(), Vec::new());
    for (file, result) in files.iter().zip(results) {
        match result {
            Ok(text) => texts.push((file.file, text)),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(texts) } else { Err(errors) }
}

/// Replaces each changed file atomically; its permissions and owner stay. The new content of all
/// files is written before the first one changes.
fn write_back(files: &[EditedFile<'_>]) -> anyhow::Result<()> {
    let changed = files.iter().filter(|file| file.is_changed());
    let changed: Vec<_> = changed.filter_map(|it| Some((it.file.path.as_ref()?, it))).collect();
    for (path, _) in &changed {
        let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        let place = path.display();
        ensure!(is_file, "--in-place: {place}: not a regular file; no file is changed");
    }
    let mut new = Vec::new();
    for (path, file) in changed {
        let content = NewContent::write(path, NEW_FILE, &file.texts());
        let content = content.with_context(|| {
            format!("--in-place: no file is changed: writing beside {}", path.display())
        })?;
        new.push((path.display().to_string(), content));
    }
    let mut written: Vec<String> = Vec::new();
    for (path, content) in new {
        content.publish().with_context(|| {
            let others = match written.as_slice() {
                [] => "no file is changed".to_owned(),
                written => format!("only these files are changed: {}", written.join(", ")),
            };
            format!("--in-place: {others}: replacing {path}")
        })?;
        written.push(path);
    }
    Ok(())
}

/// Returns the texts of all files as one stream of documents. A single file stays as it is.
fn stream(files: Vec<EditedFile<'_>>) -> Vec<String> {
    let mut stream: Vec<String> = Vec::new();
    for file in files {
        let mut texts: Vec<_> = file.parts.into_iter().map(|(_, new)| new).collect();
        let last = stream.iter().rev().find(|part| !part.is_empty());
        if let (Some(last), Some(first)) = (last, texts.first_mut()) {
            let separator = separator(last, first);
            // A byte order mark belongs to the start of a stream.
            let text = first.strip_prefix('\u{feff}').unwrap_or(first);
            *first = format!("{separator}{text}");
        }
        stream.extend(texts);
    }
    stream
}

/// Returns the text between two files of a stream.
fn separator(before: &str, after: &str) -> String {
    let line_break = if before.ends_with('\n') { "" } else { "\n" };
    let after = after.trim_start_matches('\u{feff}');
    let mark = match after.lines().find(|line| !line.is_empty() && !line.starts_with('#')) {
        Some(directive) if directive.starts_with('%') => "...\n",
        Some(marked) if marked.starts_with("---") => "",
        _ => "---\n",
    };
    format!("{line_break}{mark}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_separate_documents_of_a_stream() {
        let joined = |texts: &[&str]| {
            let inputs: Vec<_> =
                texts.iter().map(|&text| InputFile { path: None, text: text.to_owned() }).collect();
            let parts = |file: &InputFile| {
                let text = Some(("", file.text.clone()));
                text.into_iter().filter(|(_, new)| !new.is_empty()).collect()
            };
            let files = inputs
                .iter()
                .map(|file| EditedFile { parts: parts(file), ..EditedFile::new(file) });
            stream(files.collect()).concat()
        };
        for (texts, expected) in [
            (&["a: 1\r\n---\n"][..], "a: 1\r\n---\n"),
            (&["\u{feff}a: 1", "\u{feff}b: 2"], "\u{feff}a: 1\n---\nb: 2"),
            (&["a: 1\n", "--- # b\nb: 2\n"], "a: 1\n--- # b\nb: 2\n"),
            (&["a: 1\n", "%YAML 1.2\n---\nb: 2\n"], "a: 1\n...\n%YAML 1.2\n---\nb: 2\n"),
            (&["a: 1\n", "# c\n\n%TAG ! !\n---\n"], "a: 1\n...\n# c\n\n%TAG ! !\n---\n"),
            (&["", "a: 1", "", "{\"b\": 2}"], "a: 1\n---\n{\"b\": 2}"),
        ] {
            assert_eq!(joined(texts), expected);
        }
    }
}
