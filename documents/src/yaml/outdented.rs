//! Quoted strings whose continuation lines are indented less than the block around them. Go's
//! parser folds them, but the library rejects them. White space before such a line is not part of
//! the string, so the line is indented further.

use std::borrow::Cow;

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::Value;

use super::YamlError;
use super::continuation_lines::continuation_lines;

/// Parses one document like [`parse`](super::parse), but accepts such lines. Also returns the text
/// with those lines indented.
pub(super) fn parse(text: &str) -> (Cow<'_, str>, Result<Value, YamlError>) {
    match super::parse(text) {
        Err(error) => match indented(text) {
            Some(indented) => {
                let parsed = super::parse(&indented);
                (indented.into(), parsed)
            }
            None => (text.into(), Err(error)),
        },
        parsed => (text.into(), parsed),
    }
}

/// Returns the text with the lines inside quoted strings indented, which every parser accepts.
/// `None` if the text has no line that needs it, or is not YAML for another reason. Repeated keys
/// and aliases are not checked.
pub fn indented(text: &str) -> Option<String> {
    if text.contains(&line_start()) {
        return None;
    }
    let error = events(text).find_map(Result::err)?;
    if !error.contains(PROBLEM) {
        return None;
    }
    let lines = continuation_lines(text);
    let mut indented = String::with_capacity(text.len() + lines.len() * FURTHEST);
    let mut starts = Vec::with_capacity(lines.len());
    let mut rest = 0;
    for line in lines {
        indented.push_str(&text[rest..line]);
        starts.push(indented.len());
        indented.push_str(&" ".repeat(FURTHEST));
        rest = line;
    }
    indented.push_str(&text[rest..]);
    are_quoted(&indented, &starts).then_some(indented)
}

/// Takes the indentation of [`indented`] away.
pub fn outdented(text: &str) -> String {
    text.replace(&line_start(), "\n")
}

/// Start of a line that was indented.
fn line_start() -> String {
    ["\n", &" ".repeat(FURTHEST)].concat()
}

/// True if the text is YAML, and every line that starts at one of these offsets is part of a quoted
/// string, where its indentation is no content.
fn are_quoted(text: &str, starts: &[usize]) -> bool {
    let mut starts = starts.iter().peekable();
    for event in events(text) {
        let Ok((event, start, end)) = event else { return false };
        let quoted = [ScalarStyle::SingleQuoted, ScalarStyle::DoubleQuoted];
        if matches!(event, Event::Scalar(_, style, ..) if quoted.contains(&style)) {
            while starts.next_if(|line| (start..end).contains(line)).is_some() {}
        }
    }
    starts.peek().is_none()
}

/// Returns the parser's events with the start and end of their text, and at last its error.
fn events(text: &str) -> impl Iterator<Item = Result<(Event<'_>, usize, usize), String>> {
    let options = granit_parser::options! { emit_comments: false };
    Parser::new_from_str_with_options(text, options).map(|next| {
        let (event, span) = next.map_err(|error| error.info().clone())?;
        let range = span.byte_range().unwrap_or_default();
        Ok((event, range.start, range.end))
    })
}

/// The parser's error about a line that is not indented.
const PROBLEM: &str = "invalid indentation in multiline quoted scalar";

/// No block begins beyond this column: pods nest a dozen levels.
const FURTHEST: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
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

    #[test]
    fn repeated_key_is_found_beside_outdented_lines() {
        let text = "a: 1\na: 2\nb: 'x\ny'\n";
        let (value, refused) = parse_first(text).unwrap();
        assert_eq!(value, json!({"a": 2, "b": "x y"}));
        assert!(refused.is_some_and(|error| error.problem.contains("duplicate mapping key")));
        assert_eq!(outdented(&indented(text).unwrap()), text);
    }

    #[test]
    fn many_lines_take_one_pass() {
        // A parse for each line would take hours.
        let text = (0..100_000).map(|n| format!("a{n}: 'x\ny'\n")).collect::<Vec<_>>().concat();
        let found = indented(&text).unwrap();
        assert_eq!(outdented(&found), text);
    }

    /// The former algorithm: a parse of the text for each line.
    fn one_by_one(text: &str) -> Result<serde_json::Value, crate::yaml::YamlError> {
        let mut text = text.to_owned();
        loop {
            match parse(&text) {
                Err(error) if error.problem == super::PROBLEM => {
                    let lines = text.split_inclusive('\n').take(error.line - 1);
                    let at: usize = lines.map(str::len).sum();
                    let line = text[at..].split('\n').next().unwrap_or_default();
                    let (marker, rest) = line.split_at(line.len().min(3));
                    if ["---", "..."].contains(&marker) && !rest.starts_with(|c| c > ' ') {
                        return Err(error);
                    }
                    text.insert_str(at, &" ".repeat(super::FURTHEST));
                }
                parsed => return parsed,
            }
        }
    }

    /// Generates tokens around quotes, line breaks and indentation.
    fn piece() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "'", "'", "\"", "\"", "\n", "\n", "\n  ", "\n\n", "a: ", "b: ", "- ", "? ", "x",
            "it's", "''", "\\", "\\\"", "# ", " # '", "|\n", ">-\n", "[", "]", "{", "}", ", ", ",",
            ":", "!t ", "&a ", "\r\n", "\n---\n", "\n...", "é",
        ])
    }

    proptest! {
        #[test]
        fn one_pass_equals_a_parse_for_each_line(pieces in prop::collection::vec(piece(), 0..24)) {
            let text = pieces.concat();
            let (_, found) = super::parse(&text);
            match (one_by_one(&text), found) {
                (Ok(expected), found) => prop_assert_eq!(found, Ok(expected), "{}", text),
                (Err(_), found) => prop_assert!(found.is_err(), "{}", text),
            }
        }

        #[test]
        fn entries_with_outdented_lines_have_their_values(count in 0_usize..2000, quote in "['\"]") {
            let items = (0..count).map(|n| format!("- b{n}: {quote}x\n{n}{quote}\n"));
            let text = items.collect::<Vec<_>>().concat();
            let items: Vec<_> = (0..count).map(|n| {
                let mut item = serde_json::Map::new();
                item.insert(format!("b{n}"), json!(format!("x {n}")));
                serde_json::Value::Object(item)
            }).collect();
            let expected = if count == 0 { json!(null) } else { json!(items) };
            prop_assert_eq!(super::parse(&text).1, Ok(expected));
        }
    }
}
