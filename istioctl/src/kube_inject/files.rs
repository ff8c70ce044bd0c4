//! Injected files, and their concatenation to one stream.

use anyhow::Context;
use local_files::replace_regular_file;

use super::conversion::{self, ConversionError};
use super::finding::Finding;
use super::output_flags::Form;
use super::parallel::in_order;
use super::unified_diff::unified_diff;
use super::workload_patch::patch_lines;
use crate::inputs::{InputFile, STANDARD};

/// A file after injection.
#[derive(Debug)]
pub(super) struct InjectedFile<'a> {
    pub(super) file: &'a InputFile,
    /// The old and the new text of each part.
    pub(super) parts: Vec<(&'a str, String)>,
    /// The results for its objects.
    pub(super) findings: Vec<Finding>,
}

impl<'a> InjectedFile<'a> {
    /// Returns the file without text.
    pub(super) fn new(file: &'a InputFile) -> Self {
        Self { file, parts: Vec::new(), findings: Vec::new() }
    }

    /// True if the new text differs from the old one.
    pub(super) fn is_changed(&self) -> bool {
        self.parts.iter().any(|(old, new)| old != new)
    }

    /// Returns the new text, in parts.
    fn texts(&self) -> Vec<&str> {
        self.parts.iter().map(|(_, new)| new.as_str()).collect()
    }
}

impl Form {
    /// Returns the files in this form, in parts.
    pub(super) fn render(
        self,
        files: Vec<InjectedFile<'_>>,
    ) -> Result<Vec<String>, Vec<anyhow::Error>> {
        match self {
            Self::Diff => Ok(in_order(&files, |file| {
                let name = match &file.file.path {
                    Some(path) => path.display().to_string(),
                    None => STANDARD.to_owned(),
                };
                let parts = file.parts.iter().map(|(old, new)| (*old, new.as_str()));
                unified_diff(name.trim_start_matches("./").trim_start_matches('/'), parts)
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
                        .map(|(file, text)| InjectedFile {
                            parts: vec![("", text)],
                            ..InjectedFile::new(file)
                        })
                        .collect(),
                ))
            }
        }
    }
}

/// Returns the new text of each file after a conversion.
fn converted<'a>(
    files: &[InjectedFile<'a>],
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

/// Replaces each changed file atomically; its permissions and owner stay. The first file that
/// cannot be written ends it.
pub(super) fn write_back(files: &[InjectedFile<'_>]) -> anyhow::Result<()> {
    for file in files.iter().filter(|file| file.is_changed()) {
        if let Some(path) = &file.file.path {
            replace_regular_file(path, NEW_FILE, &file.texts())
                .with_context(|| format!("--in-place: {}", path.display()))?;
        }
    }
    Ok(())
}

/// Returns the texts of all files as one stream of documents. A single file stays as it is.
pub(super) fn stream(files: Vec<InjectedFile<'_>>) -> Vec<String> {
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

/// Permissions if the file has disappeared meanwhile, before the umask.
const NEW_FILE: u32 = 0o666;

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
                .map(|file| InjectedFile { parts: parts(file), ..InjectedFile::new(file) });
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
