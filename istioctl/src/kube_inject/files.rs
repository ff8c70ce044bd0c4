//! Injected files, and their concatenation to one stream.

use anyhow::Context;
use local_files::replace_regular_file;

use super::finding::Finding;
use crate::inputs::InputFile;

/// A file after injection.
#[derive(Debug)]
pub(super) struct InjectedFile<'a> {
    pub(super) file: &'a InputFile,
    /// The new text, in parts.
    pub(super) parts: Vec<String>,
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
        let mut rest = Some(self.file.text.as_str());
        for part in &self.parts {
            rest = rest.and_then(|rest| rest.strip_prefix(part.as_str()));
        }
        rest != Some("")
    }
}

/// Replaces each changed file atomically; its permissions and owner stay. The first file
/// that cannot be written ends it.
pub(super) fn write_back(files: &[InjectedFile<'_>]) -> anyhow::Result<()> {
    for file in files.iter().filter(|file| file.is_changed()) {
        if let Some(path) = &file.file.path {
            replace_regular_file(path, NEW_FILE, &file.parts)
                .with_context(|| format!("--in-place: {}", path.display()))?;
        }
    }
    Ok(())
}

/// Returns the texts of all files as one stream of documents. A single file stays as it is.
pub(super) fn stream(files: Vec<InjectedFile<'_>>) -> Vec<String> {
    let mut stream: Vec<String> = Vec::new();
    for mut file in files {
        let last = stream.iter().rev().find(|part| !part.is_empty());
        if let (Some(last), Some(first)) = (last, file.parts.first_mut()) {
            let separator = separator(last, first);
            // A byte order mark belongs to the start of a stream.
            let text = first.strip_prefix('\u{feff}').unwrap_or(first);
            *first = format!("{separator}{text}");
        }
        stream.extend(file.parts);
    }
    stream
}

/// Returns the text between two files of a stream.
fn separator(before: &str, after: &str) -> String {
    let line_break = if before.ends_with('\n') { "" } else { "\n" };
    let mark = match after.trim_start_matches('\u{feff}') {
        directive if directive.starts_with('%') => "...\n",
        marked if marked.starts_with("---") => "",
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
                [file.text.clone()].into_iter().filter(|part| !part.is_empty()).collect()
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
            (&["", "a: 1", "", "{\"b\": 2}"], "a: 1\n---\n{\"b\": 2}"),
        ] {
            assert_eq!(joined(texts), expected);
        }
    }
}
