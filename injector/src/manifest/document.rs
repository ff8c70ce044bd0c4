//! Splitting of a file into documents.

use serde::de::IgnoredAny;

use super::render::Style;

/// One document of a file, including the separator before it.
///
/// The texts of all documents, concatenated, are the text of the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Document<'a> {
    /// Its text.
    pub text: &'a str,
    /// The document's number in the file, from 1. A part with only comments has the number of the
    /// document before it.
    pub number: usize,
    /// The line of the file at which the text starts, from 1.
    pub line: usize,
    /// The role of the text in its document.
    pub(super) role: Role,
}

/// Role of a text in its document.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    /// Text before, between and after the items of a `List`.
    BesideItems,
    /// An item of a `List` in this style.
    Item(Style),
    /// The whole document.
    Whole,
}

impl<'a> Document<'a> {
    /// Splits a file at its separators: lines that start with `---`. As in YAML, a line that starts
    /// with `...` also ends a document. As in kubectl, JSON values need no separators.
    pub fn split(text: &'a str) -> Vec<Self> {
        let mut documents = Vec::new();
        let mut part = Part { start: 0, line: 1, state: State::Nothing };
        let mut number = 0;
        let mut position = 0;
        let mut finish = |part: &Part, end: usize| {
            let mut line = part.line;
            for text in json_values(&text[part.start..end]) {
                number += usize::from(part.state == State::Content);
                if !text.is_empty() {
                    documents.push(Self { text, number, line, role: Role::Whole });
                }
                line += text.matches('\n').count();
            }
        };
        for (line_number, line) in (1..).zip(text.split_inclusive('\n')) {
            let bare = line.trim_start_matches('\u{feff}');
            let separator = is_marker(bare, "---");
            if separator && part.state == State::Directives {
                // Directives such as `%YAML` belong to the document that begins here.
                part.state = State::Nothing;
            } else if separator {
                finish(&part, position);
                part = Part { start: position, line: line_number, state: State::Nothing };
            }
            part.state = part.state.after(bare);
            position += line.len();
            if is_marker(bare, "...") {
                finish(&part, position);
                part = Part { start: position, line: line_number + 1, state: State::Nothing };
            }
        }
        finish(&part, text.len());
        documents
    }
}

impl Document<'_> {
    /// Returns the line of the file in which the content begins, behind separator and comments.
    pub fn content_line(&self) -> usize {
        let mut state = State::Nothing;
        let lines = self.text.split_inclusive('\n').take_while(|line| {
            state = state.after(line.trim_start_matches('\u{feff}'));
            state != State::Content
        });
        self.line + lines.count()
    }

    /// Returns the document with another text at the same place.
    #[must_use]
    pub fn with_text<'b>(&self, text: &'b str) -> Document<'b> {
        Document { text, ..*self }
    }
}

/// Splits a text that consists of several JSON values after them; each has the rest of its last
/// line. Any other text stays whole.
fn json_values(text: &str) -> Vec<&str> {
    let bare = text.trim_start_matches('\u{feff}');
    let json = if is_marker(bare, "---") { &bare[3..] } else { bare }.trim_start();
    if !json.starts_with('{') {
        return vec![text];
    }
    let start = text.len() - json.len();
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<IgnoredAny>();
    let mut ends = vec![0];
    while let Some(value) = values.next() {
        if value.is_err() {
            return vec![text];
        }
        let end = start + values.byte_offset();
        let (space, line_break) = match text[end..].split_once('\n') {
            Some((space, _)) => (space, 1),
            None => (&text[end..], 0),
        };
        let is_last_in_line = space.trim().is_empty();
        ends.push(if is_last_in_line { end + space.len() + line_break } else { end });
    }
    ends.pop();
    let mut ends = ends.into_iter().chain([text.len()]).peekable();
    let mut parts = Vec::new();
    while let (Some(start), Some(&end)) = (ends.next(), ends.peek()) {
        parts.push(&text[start..end]);
    }
    parts
}

struct Part {
    start: usize,
    line: usize,
    state: State,
}

/// Content of a part so far.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Content,
    Directives,
    Nothing,
}

impl State {
    /// Returns the state after a line without a byte order mark.
    fn after(self, line: &str) -> Self {
        let rest = if is_marker(line, "---") { &line[3..] } else { line }.trim();
        match self {
            Self::Content => Self::Content,
            _ if rest.is_empty() || rest.starts_with('#') || is_marker(line, "...") => self,
            _ if line.starts_with('%') => Self::Directives,
            _ => Self::Content,
        }
    }
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn empty_document_after_directives_is_one_of_its_own() {
        let empty = "%YAML 1.2\n---\n# Copyright\n";
        let texts: Vec<_> = Document::split(&format!("{empty}---\na: 1\n"))
            .iter()
            .map(|document| (document.text.to_owned(), document.number, document.line))
            .collect();
        assert_eq!(texts, [(empty.to_owned(), 0, 1), ("---\na: 1\n".to_owned(), 1, 4)]);
    }

    #[test]
    fn content_begins_behind_separator_and_comments() {
        let texts = ["a: 1\n---\n# b\n\nb: 1\n--- {c: 1}\n%YAML 1.2\n---\nd: 1\n"];
        let lines = texts.iter().flat_map(|text| Document::split(text));
        let lines: Vec<_> = lines.map(|document| document.content_line()).collect();
        assert_eq!(lines, [1, 5, 6, 9]);
    }

    #[test]
    fn json_values_need_no_separators() {
        let texts = |text| {
            let parts = Document::split(text);
            parts.into_iter().map(|part| (part.text, part.number, part.line)).collect::<Vec<_>>()
        };
        assert_eq!(
            texts("\u{feff}--- {\n\"a\": 1} \r\n\n {}{}\n---\nb: 1\n"),
            [
                ("\u{feff}--- {\n\"a\": 1} \r\n", 1, 1),
                ("\n {}", 2, 3),
                ("{}\n", 3, 4),
                ("---\nb: 1\n", 4, 5)
            ]
        );
        for whole in ["{\"a\": 1}\n\n", "{\"a\": 1}\n{\"b\": ]}", "{a: 1}\n", "{}\n# c\n{}\n"] {
            assert_eq!(texts(whole), [(whole, 1, 1)]);
        }
    }

    #[test]
    fn documents_are_split_as_in_yaml_and_kubectl() {
        let texts = |text| {
            let parts = Document::split(text);
            parts.into_iter().map(|part| (part.text, part.number, part.line)).collect::<Vec<_>>()
        };
        assert_eq!(texts(""), []);
        assert_eq!(texts("a\n---\nb"), [("a\n", 1, 1), ("---\nb", 2, 2)]);
        assert_eq!(
            texts("# c\n--- # d\na: |\n  ---\n"),
            [("# c\n", 0, 1), ("--- # d\na: |\n  ---\n", 1, 2)]
        );
        assert_eq!(texts("%YAML 1.1\n---\na\n"), [("%YAML 1.1\n---\na\n", 1, 1)]);
        assert_eq!(texts("a\n...\nb\n"), [("a\n...\n", 1, 1), ("b\n", 2, 3)]);
        assert_eq!(
            texts("---\r\n--- a\r\n---x\r\n"),
            [("---\r\n", 0, 1), ("--- a\r\n---x\r\n", 1, 2)]
        );
    }

    proptest! {
        #[test]
        fn split_documents_concatenate_to_the_text(text in "([-.%#a{} \u{feff}]{0,4}\r?\n){0,12}[-a]{0,4}") {
            let parts = Document::split(&text);
            prop_assert_eq!(parts.iter().map(|part| part.text).collect::<String>(), text);
        }
    }
}
