//! The text of a document: its lines, and what may stand between its nodes.

/// A text with the ways to find one's way in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    /// The text.
    pub(super) text: &'a str,
    /// The line break it uses.
    pub(super) eol: &'static str,
}

impl<'a> Source<'a> {
    /// Wraps a text; its first line break decides which line break it uses.
    pub(super) fn new(text: &'a str) -> Self {
        let crlf = text.find('\n').is_some_and(|at| text[..at].ends_with('\r'));
        Self { text, eol: if crlf { "\r\n" } else { "\n" } }
    }

    /// The byte at an offset.
    pub(super) fn byte(&self, position: usize) -> Option<u8> {
        self.text.as_bytes().get(position).copied()
    }

    /// The line and the column, both from 1.
    pub(super) fn place(&self, position: usize) -> (usize, usize) {
        let line = self.text[..position].matches('\n').count() + 1;
        (line, self.column(position) + 1)
    }

    /// How far an offset is from the start of its line. Only spaces, dashes and the like can
    /// stand before a node of a block collection, so bytes are columns there.
    pub(super) fn column(&self, position: usize) -> usize {
        position - self.line_start(position)
    }

    /// The offset of the start of the line.
    pub(super) fn line_start(&self, position: usize) -> usize {
        let before = &self.text.as_bytes()[..position];
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if start == 0 && self.text.starts_with(BOM) && position >= BOM.len_utf8() {
            return BOM.len_utf8();
        }
        start
    }

    /// The offset of the end of the line, before its line break.
    pub(super) fn line_end(&self, position: usize) -> usize {
        let rest = &self.text[position..];
        let line = rest.split_once('\n').map_or(rest, |(line, _)| line);
        position + line.strip_suffix('\r').unwrap_or(line).len()
    }

    /// The offset of the start of the next line; `None` on the last one.
    pub(super) fn next_line(&self, position: usize) -> Option<usize> {
        self.text[position..].find('\n').map(|at| position + at + 1)
    }

    /// Whether nothing but spaces stands before an offset in its line.
    pub(super) fn first_in_line(&self, position: usize) -> bool {
        self.text[self.line_start(position)..position].bytes().all(|byte| byte == b' ')
    }

    /// The space at the start of the line.
    pub(super) fn line_indent(&self, position: usize) -> &'a str {
        let line = &self.text[self.line_start(position)..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    /// The offset after white space, line breaks and comments.
    pub(super) fn skip_trivia(&self, mut position: usize) -> usize {
        loop {
            match self.byte(position) {
                Some(b' ' | b'\t' | b'\r' | b'\n') => position += 1,
                Some(b'#') => position = self.line_end(position),
                _ => return position,
            }
        }
    }

    /// The offset after white space, comments, and the comma between two items in brackets.
    pub(super) fn skip_comma(&self, position: usize) -> usize {
        let next = self.skip_trivia(position);
        if self.byte(next) == Some(b',') { self.skip_trivia(next + 1) } else { next }
    }

    /// The offset after anchors and tags.
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

    /// Whether the `?` of an explicit key stands here.
    pub(super) fn is_question_mark(&self, position: usize) -> bool {
        self.byte(position) == Some(b'?')
            && self.byte(position + 1).is_none_or(|byte| byte.is_ascii_whitespace())
    }

    /// The end of a block scalar that starts (with anchor and tag) at `start`: the end of its
    /// last line of text, or of its last empty line where its header keeps those.
    pub(super) fn block_scalar_end(&self, start: usize, span_end: usize) -> usize {
        let header = self.skip_properties(start);
        let header_end = self.line_end(header.min(self.text.len()));
        let marks = self.text[header..header_end].split('#').next().unwrap_or_default();
        if span_end <= header_end {
            return header_end;
        }
        let body = &self.text[header_end..span_end];
        let kept = if marks.contains('+') {
            // The reader's place may end in the space before what follows.
            let body = body.trim_end_matches(' ');
            let body = body.strip_suffix('\n').unwrap_or(body);
            body.strip_suffix('\r').unwrap_or(body)
        } else {
            body.trim_end_matches(['\n', '\r', ' ', '\t'])
        };
        self.line_end(header_end + kept.len())
    }

    /// The end of what belongs to an item that ends at `end` and starts in `column`: the rest of
    /// its line, and the comments below that are indented deeper. The last item of a collection
    /// also has the comments directly below in its own column.
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

    /// The start of the comment lines directly above an item, in its own column and below
    /// `floor`; of its own line where there are none.
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

/// May stand at the start of a file.
pub(super) const BOM: char = '\u{feff}';
