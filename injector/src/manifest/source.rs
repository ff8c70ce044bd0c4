//! Text of a document: its lines, and the trivia between its nodes.

use std::ops::Range;

use granit_parser::{Event, Parser};

/// A text with functions for positions in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    /// The text.
    pub(super) text: &'a str,
    /// The text's line break.
    pub(super) eol: &'static str,
}

impl<'a> Source<'a> {
    /// Wraps a text. The first line break determines `eol`.
    pub(super) fn new(text: &'a str) -> Self {
        let crlf = text.find('\n').is_some_and(|at| text[..at].ends_with('\r'));
        Self { text, eol: if crlf { "\r\n" } else { "\n" } }
    }

    /// Returns the byte at an offset.
    pub(super) fn byte(&self, position: usize) -> Option<u8> {
        self.text.as_bytes().get(position).copied()
    }

    /// Returns the line and the column, both from 1.
    pub(super) fn place(&self, position: usize) -> (usize, usize) {
        let line = self.text[..position].matches('\n').count() + 1;
        (line, self.column(position) + 1)
    }

    /// Returns the distance of an offset from the start of its line. A node of a block collection
    /// can only follow single-byte characters in its line, so bytes are columns there.
    pub(super) fn column(&self, position: usize) -> usize {
        position - self.line_start(position)
    }

    /// Returns the offset of the start of the line.
    pub(super) fn line_start(&self, position: usize) -> usize {
        let before = &self.text.as_bytes()[..position];
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if start == 0 && self.text.starts_with(BOM) && position >= BOM.len_utf8() {
            return BOM.len_utf8();
        }
        start
    }

    /// Returns the offset of the end of the line, before its line break.
    pub(super) fn line_end(&self, position: usize) -> usize {
        let rest = &self.text[position..];
        let line = rest.split_once('\n').map_or(rest, |(line, _)| line);
        position + line.strip_suffix('\r').unwrap_or(line).len()
    }

    /// Returns the offset of the start of the next line; `None` on the last one.
    pub(super) fn next_line(&self, position: usize) -> Option<usize> {
        self.text[position..].find('\n').map(|at| position + at + 1)
    }

    /// True if only spaces precede an offset in its line.
    pub(super) fn first_in_line(&self, position: usize) -> bool {
        self.text[self.line_start(position)..position].bytes().all(|byte| byte == b' ')
    }

    /// Returns the white space at the start of the line.
    pub(super) fn line_indent(&self, position: usize) -> &'a str {
        let line = &self.text[self.line_start(position)..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    /// Returns the offset after white space, line breaks and comments.
    pub(super) fn skip_trivia(&self, mut position: usize) -> usize {
        loop {
            match self.byte(position) {
                Some(b' ' | b'\t' | b'\r' | b'\n') => position += 1,
                Some(b'#') => position = self.line_end(position),
                _ => return position,
            }
        }
    }

    /// Returns the offset after white space, comments, and the comma between two items of a flow
    /// collection.
    pub(super) fn skip_comma(&self, position: usize) -> usize {
        let next = self.skip_trivia(position);
        if self.byte(next) == Some(b',') { self.skip_trivia(next + 1) } else { next }
    }

    /// Returns the offset after anchors and tags.
    pub(super) fn skip_properties(&self, start: usize) -> usize {
        let mut position = start;
        while matches!(self.byte(position), Some(b'&' | b'!')) {
            let verbatim = self.text[position..].starts_with("!<");
            let ends = |c: char| {
                if verbatim { c == '>' } else { c.is_ascii_whitespace() }
            };
            let length = self.text[position..].find(ends).unwrap_or(0) + usize::from(verbatim);
            if length == 0 {
                break;
            }
            position = self.skip_trivia(position + length);
        }
        position
    }

    /// True if the `?` of an explicit key is at this offset.
    pub(super) fn is_question_mark(&self, position: usize) -> bool {
        self.byte(position) == Some(b'?')
            && self.byte(position + 1).is_none_or(|byte| byte.is_ascii_whitespace())
    }

    /// Returns the end of a block scalar that starts (with anchor and tag) at `start`: the end of
    /// its last line of text, or of its last empty line if its header keeps empty lines.
    pub(super) fn block_scalar_end(&self, start: usize, span_end: usize) -> usize {
        let header = self.skip_properties(start);
        let header_end = self.line_end(header.min(self.text.len()));
        let marks = self.text[header..header_end].split('#').next().unwrap_or_default();
        if span_end <= header_end {
            return header_end;
        }
        let body = &self.text[header_end..span_end];
        let kept = if marks.contains('+') {
            // The parser's end offset may be in the indentation of the next node.
            let body = body.trim_end_matches(' ');
            let body = body.strip_suffix('\n').unwrap_or(body);
            body.strip_suffix('\r').unwrap_or(body)
        } else {
            body.trim_end_matches(['\n', '\r', ' ', '\t'])
        };
        self.line_end(header_end + kept.len())
    }

    /// Returns the end of the text that belongs to an item that ends at `end` and starts in
    /// `column`: the rest of its line, and the comments below that are indented deeper. The last
    /// item of a collection also gets the comments directly below in its own column.
    pub(super) fn extent_end(&self, end: usize, column: usize, last: bool) -> usize {
        let mut extent = self.line_end(end);
        let mut position = extent;
        let mut blank = false;
        while let Some(line) = self.next_line(position) {
            let rest = &self.text[line..self.line_end(line)];
            let text = rest.trim_start_matches(' ');
            let indent = rest.len() - text.len();
            if text.trim_start().is_empty() {
                blank = true;
            } else if text.starts_with('#')
                && (indent > column || last && indent == column && !blank)
            {
                extent = line + rest.len();
                blank = false;
            } else {
                break;
            }
            position = line + rest.len();
        }
        extent
    }

    /// Returns the comments that start in these parts of the text.
    pub(super) fn comments(
        &self,
        parts: impl IntoIterator<Item = Range<usize>>,
    ) -> impl Iterator<Item = Range<usize>> {
        let parts = parts.into_iter();
        let parts: Vec<_> = parts.filter(|part| self.text[part.clone()].contains('#')).collect();
        // Only the parser tells a comment from a `#` in a value.
        let text = if parts.is_empty() { "" } else { self.text };
        let options = granit_parser::options! { emit_comments: true };
        let events = Parser::new_from_str_with_options(text, options).map_while(Result::ok);
        let comments = events.filter(|(event, _)| matches!(event, Event::Comment(..)));
        let ranges = comments.filter_map(|(_, span)| span.byte_range());
        ranges.filter(move |range| parts.iter().any(|part| part.contains(&range.start)))
    }

    /// Returns the start of the comment lines directly above an item, in its own column and below
    /// `floor`. Without any, returns the start of its own line.
    pub(super) fn lead_start(&self, start: usize, floor: usize) -> usize {
        let column = self.column(start);
        let mut lead = self.line_start(start);
        while lead > 0 {
            let above = self.line_start(lead - 1);
            let line = &self.text[above..lead];
            let text = line.trim_start_matches(' ');
            if above <= floor || !text.starts_with('#') || line.len() - text.len() != column {
                break;
            }
            lead = above;
        }
        lead
    }
}

/// The byte order mark at the start of a file.
pub(super) const BOM: char = '\u{feff}';
