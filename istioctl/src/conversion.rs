//! Conversion of injected files to JSON or YAML.

use std::fmt::Write;

use documents::yaml::{self, YamlError};
use injector::manifest::Document;
use serde_json::Value;

/// A document that cannot be converted.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("document {document}: {problem}")]
pub(super) struct ConversionError {
    document: usize,
    /// The problem without its position, which would be one of the injected text.
    problem: String,
}

/// Returns every document as JSON, one after the other. JSON stays as it is; empty documents and
/// comments are left out.
pub(super) fn to_json(text: &str) -> Result<String, ConversionError> {
    let mut json = String::new();
    for document in Document::split(text) {
        let text = content(&document);
        if as_json(text).is_some() {
            json.push_str(text.trim_end());
            json.push('\n');
            continue;
        }
        let value = yaml::parse_file(text).or_else(|problem| match yaml::indented(text) {
            Some(indented) => yaml::parse_file(&indented),
            None => Err(problem),
        });
        let value = value.map_err(|problem| error(&document, problem))?;
        if !value.is_null() {
            let _ = writeln!(json, "{value:#}");
        }
    }
    Ok(json)
}

/// Returns the text with its JSON documents as YAML. YAML stays as it is.
pub(super) fn to_yaml(text: &str) -> Result<String, ConversionError> {
    let mut yaml = String::new();
    for document in Document::split(text) {
        match as_json(content(&document)) {
            Some(value) => {
                let before = &document.text[..document.text.len() - content(&document).len()];
                // JSON values need no separators, YAML documents do.
                let is_apart = before.contains("---") || yaml.is_empty();
                yaml.push_str(if is_apart { before } else { "---\n" });
                let value = yaml::to_string(&value).map_err(|problem| error(&document, problem))?;
                yaml.push_str(&value);
            }
            None => yaml.push_str(document.text),
        }
    }
    Ok(yaml)
}

/// Returns the text of a document without the line that separates it.
fn content<'a>(document: &Document<'a>) -> &'a str {
    let text = document.text.trim_start_matches('\u{feff}');
    match text.split_once('\n') {
        Some((line, rest)) if is_separator(line) => rest,
        _ => text,
    }
}

/// True for a line that starts a document and holds nothing of it.
fn is_separator(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| {
        let comment = rest.trim_start();
        comment.is_empty() || (comment.starts_with('#') && comment.len() < rest.len())
    })
}

/// Returns the value of a JSON object or array.
fn as_json(text: &str) -> Option<Value> {
    text.trim_start().starts_with(['{', '[']).then(|| serde_json::from_str(text).ok()).flatten()
}

fn error(document: &Document<'_>, error: YamlError) -> ConversionError {
    ConversionError { document: document.number, problem: error.problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_after_a_separator_with_a_comment_is_json() {
        let text = "--- # first\n{\"a\": 1}\n";
        assert_eq!(to_json(text).unwrap(), "{\"a\": 1}\n");
        assert_eq!(to_yaml(text).unwrap(), "--- # first\na: 1\n");
    }

    const FILE: &str = "\
# Comments alone.
---
kind: Service # one
ports: [080, 0o10]
---
---
{\"kind\": \"Pod\", \"b\": 1, \"a\": [\"yes\"]}
";

    #[test]
    fn json_holds_one_value_per_document() {
        let expected = "{\n  \"kind\": \"Service\",\n  \"ports\": [\n    80,\n    8\n  ]\n}\n\
                        {\"kind\": \"Pod\", \"b\": 1, \"a\": [\"yes\"]}\n";
        assert_eq!(to_json(FILE).unwrap(), expected);
        assert_eq!(to_json("").unwrap(), "");
        // A string that continues in a column of its own, as Go's parser accepts it.
        assert_eq!(to_json("a:\n  b: \"c\n d\"\n").unwrap(), to_json("a: {b: c d}").unwrap());
        let error = to_json("a: 1\n---\nb: [\n").unwrap_err().to_string();
        assert_eq!(error, "document 2: unclosed bracket '['");
    }

    #[test]
    fn json_values_become_documents() {
        let text = "{\"a\": 1}\n{\"b\": 2}{}\n";
        assert_eq!(to_yaml(text).unwrap(), "a: 1\n---\nb: 2\n---\n{}\n");
        assert_eq!(to_json(text).unwrap(), "{\"a\": 1}\n{\"b\": 2}\n{}\n");
    }

    #[test]
    fn yaml_keeps_documents_that_are_yaml() {
        let (before, _) = FILE.split_once("{\"kind\"").unwrap();
        let expected = format!("{before}a:\n- \"yes\"\nb: 1\nkind: Pod\n");
        assert_eq!(to_yaml(FILE).unwrap(), expected);
        assert_eq!(to_yaml("\u{feff}{\"a\": 1}").unwrap(), "\u{feff}a: 1\n");
        assert_eq!(to_yaml("{a: 1}").unwrap(), "{a: 1}");
    }
}
