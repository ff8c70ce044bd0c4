//! Quoted strings whose continuation lines are indented less than the block around them. Go's
//! parser folds them, but the library rejects them. White space before such a line is not part of
//! the string, so the line is indented further.

use std::borrow::Cow;

use serde_json::Value;

use super::YamlError;

/// Parses one document like [`parse`](super::parse), but accepts such lines. Also returns the text
/// with those lines indented.
pub(super) fn parse(text: &str) -> (Cow<'_, str>, Result<Value, YamlError>) {
    let mut text = Cow::Borrowed(text);
    for _ in 0..MOST_LINES {
        match super::parse(&text) {
            Err(error) if error.problem == PROBLEM => match moved(&text, error.line) {
                Some(with_line_moved) => text = with_line_moved.into(),
                None => return (text, Err(error)),
            },
            other => return (text, other),
        }
    }
    let last = super::parse(&text);
    (text, last)
}

/// Returns the text with such lines indented, which every parser accepts. `None` if there is no such
/// line, or the text is not YAML for another reason.
pub fn indented(text: &str) -> Option<String> {
    if text.contains(&line_start()) {
        return None;
    }
    match parse(text) {
        (Cow::Owned(text), Ok(_)) => Some(text),
        _ => None,
    }
}

/// Takes the indentation of [`indented`] away.
pub fn outdented(text: &str) -> String {
    text.replace(&line_start(), "\n")
}

/// Start of a line that was indented.
fn line_start() -> String {
    ["\n", &" ".repeat(FURTHEST)].concat()
}

/// Indents a line, counted from 1, further than any block. Returns `None` if the line is a document
/// marker (`---` or `...`).
fn moved(text: &str, line: usize) -> Option<String> {
    let start = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let (before, line) = text.split_at(start);
    let ends = line.starts_with("---") || line.starts_with("...");
    (!ends).then(|| [before, &" ".repeat(FURTHEST), line].concat())
}

/// The library's error about such a line.
const PROBLEM: &str = "invalid indentation in multiline quoted scalar";

/// Most lines that are indented: each costs another parse of the text.
const MOST_LINES: usize = 256;

/// No block begins beyond this column: pods nest a dozen levels.
const FURTHEST: usize = 256;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::yaml::{indented, outdented, parse, parse_first};

    #[test]
    fn indented_text_has_the_same_value_and_comes_back() {
        for (text, value) in [
            ("a: 'x\ny'\nb: 1", json!({"a": "x y", "b": 1})),
            ("a:\r\n- \"x\r\n\r\ny\" # c\r\n", json!({"a": ["x\ny"]})),
        ] {
            let indented = indented(text).unwrap();
            assert_eq!(parse(&indented), Ok(value), "{text}");
            assert_eq!(outdented(&indented), text);
        }
        for text in ["a: 'x\n y'", "a: ['x\ny'", "a: 'x\n---\ny'"] {
            assert_eq!(indented(text), None, "{text}");
        }
    }

    #[test]
    fn quoted_string_continues_in_any_column_as_in_go() {
        for (text, value) in [
            ("a: 'x\ny'\nb: 1", json!({"a": "x y", "b": 1})),
            ("a:\n  b: \"x\ny: z\"\nc: 1", json!({"a": {"b": "x y: z"}, "c": 1})),
            ("a:\n- b: \"x\n\ny\nz\"\n- c", json!({"a": [{"b": "x\ny z"}, "c"]})),
            ("a: \"x\r\n- y\r\n# z\"\r\nb: 2", json!({"a": "x - y # z", "b": 2})),
            ("{a: 'x\ny', b: [\"q\nr\"]}", json!({"a": "x y", "b": ["q r"]})),
        ] {
            assert_eq!(parse_first(text).unwrap(), (value, None), "{text}");
        }
    }

    #[test]
    fn text_go_rejects_is_rejected() {
        for text in ["a: \"x\n---\ny\"", "'a\nb': 1", "a: x\ny\nb: 1", "a: 'x\ny"] {
            assert!(parse_first(text).is_err(), "{text}");
        }
        assert!(parse("a: 'x\ny'").is_err(), "a file of workloads is read strictly");
    }
}
