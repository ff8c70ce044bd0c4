//! Lines that begin inside a quoted string, found in one pass over a text that no parser accepts.

/// Returns the offsets of the lines that begin inside a quoted string, blank lines excepted.
///
/// The pass knows where YAML allows a node to begin, and so takes no quote of a comment, a block
/// scalar or a plain scalar for the start of a string. It does not check the text: callers parse
/// the result.
pub(super) fn continuation_lines(text: &str) -> Vec<usize> {
    let mut pass = Pass {
        bytes: text.as_bytes(),
        at: if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 },
        line: 0,
        parent: None,
        node: None,
        depth: 0,
        may_start: true,
        in_plain: false,
        found: Vec::new(),
    };
    pass.line = pass.at;
    pass.run();
    pass.found
}

struct Pass<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of the start of the line.
    line: usize,
    /// Column of the key or dash whose value comes next; `None` for the document itself.
    parent: Option<usize>,
    /// Column of the node of this line that may turn out to be a key.
    node: Option<usize>,
    /// Number of open brackets.
    depth: usize,
    /// True if a node may begin here.
    may_start: bool,
    /// True if the last line ended inside a plain scalar.
    in_plain: bool,
    found: Vec<usize>,
}

impl Pass<'_> {
    fn run(&mut self) {
        while let Some(byte) = self.byte(0) {
            if self.at == self.line && self.start_line() {
                continue;
            }
            match byte {
                b'\n' => {
                    self.at += 1;
                    self.line = self.at;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'#' if self.follows_blank() => {
                    self.in_plain = false;
                    self.at = self.line_end();
                }
                b'"' | b'\'' if self.may_start => self.quoted(byte),
                b'[' | b'{' if self.may_start => {
                    self.begin_node();
                    self.depth += 1;
                    self.pass_indicator();
                }
                b']' | b'}' if self.depth > 0 => {
                    self.depth -= 1;
                    self.pass_indicator();
                    self.may_start = false;
                }
                b',' if self.depth > 0 => self.pass_indicator(),
                b'|' | b'>' if self.may_start && self.depth == 0 => self.block_scalar(),
                b'!' | b'&' if self.may_start => self.property(),
                b'-' | b'?' if self.may_start && is_blank(self.byte(1)) => {
                    self.parent = Some(self.at - self.line);
                    self.node = None;
                    self.pass_indicator();
                }
                b':' if self.ends_key() => {
                    if self.depth == 0 {
                        self.parent = self.node.or(Some(self.at - self.line));
                    }
                    self.pass_indicator();
                }
                _ => self.plain(),
            }
        }
    }

    fn byte(&self, further: usize) -> Option<u8> {
        self.bytes.get(self.at + further).copied()
    }

    /// Begins a line. Returns true if it is a document marker, which is passed.
    fn start_line(&mut self) -> bool {
        if is_marker(&self.bytes[self.line..]) {
            (self.depth, self.parent, self.in_plain) = (0, None, false);
            (self.node, self.may_start) = (None, true);
            self.at += 3;
            return true;
        }
        let Some(indentation) = indentation(&self.bytes[self.line..]) else { return false };
        if self.depth == 0 && self.parent.is_some_and(|parent| indentation <= parent) {
            self.in_plain = false;
        }
        (self.node, self.may_start) = (None, !self.in_plain);
        false
    }

    fn begin_node(&mut self) {
        if self.depth == 0 && self.may_start && self.node.is_none() {
            self.node = Some(self.at - self.line);
        }
    }

    /// Passes an indicator after which a node may begin.
    fn pass_indicator(&mut self) {
        self.at += 1;
        (self.may_start, self.in_plain) = (true, false);
    }

    fn follows_blank(&self) -> bool {
        self.at == self.line || is_blank(self.bytes.get(self.at - 1).copied())
    }

    /// True if the colon here ends a key.
    fn ends_key(&self) -> bool {
        let next = self.byte(1);
        let before = self.at.checked_sub(1).and_then(|at| self.bytes.get(at));
        let is_json = before.is_some_and(|byte| b"\"']}".contains(byte));
        is_blank(next) || (self.depth > 0 && (is_json || next.is_some_and(is_flow_indicator)))
    }

    /// Passes a quoted string up to its end, or to a document marker.
    fn quoted(&mut self, quote: u8) {
        self.begin_node();
        (self.may_start, self.in_plain) = (false, false);
        self.at += 1;
        while let Some(byte) = self.byte(0) {
            self.at += 1;
            match byte {
                b'\n' => {
                    self.line = self.at;
                    let rest = &self.bytes[self.line..];
                    if is_marker(rest) {
                        return;
                    }
                    self.found.extend(indentation(rest).map(|_| self.line));
                }
                b'\\' if quote == b'"' && self.byte(0) != Some(b'\n') => self.at += 1,
                b'\'' if quote == b'\'' && self.byte(0) == Some(b'\'') => self.at += 1,
                byte if byte == quote => return,
                _ => {}
            }
        }
    }

    /// Passes a plain scalar as far as it goes in this line.
    fn plain(&mut self) {
        self.begin_node();
        (self.may_start, self.in_plain) = (false, true);
        self.at += 1;
        while let Some(byte) = self.byte(0) {
            match byte {
                b'\n' => return,
                b':' if self.ends_key() => break,
                b'#' if self.follows_blank() => break,
                byte if self.depth > 0 && is_flow_indicator(byte) => break,
                _ => self.at += 1,
            }
        }
        self.in_plain = false;
    }

    /// Passes a tag or an anchor.
    fn property(&mut self) {
        self.begin_node();
        while let Some(byte) = self.byte(0) {
            if is_blank(Some(byte)) || (self.depth > 0 && is_flow_indicator(byte)) {
                return;
            }
            self.at += 1;
        }
    }

    /// Passes a block scalar: all lines that are indented deeper than its key or dash.
    fn block_scalar(&mut self) {
        let header = &self.bytes[self.at + 1..self.line_end()];
        let header = header.split(|byte| *byte == b'#').next().unwrap_or_default();
        if !header.iter().all(|byte| b"0123456789+- \t\r".contains(byte)) {
            return self.plain();
        }
        self.at = self.line_end();
        while self.byte(0).is_some() {
            self.at += 1;
            let rest = &self.bytes[self.at..];
            let is_inside = |column| self.parent.is_none_or(|parent| column > parent);
            if is_marker(rest) || indentation(rest).is_some_and(|column| !is_inside(column)) {
                break;
            }
            self.line = self.at;
            self.at = self.line_end();
        }
        self.line = self.at;
    }

    /// Returns the offset of the line's end.
    fn line_end(&self) -> usize {
        let rest = &self.bytes[self.at..];
        self.at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
    }
}

/// Returns the number of spaces at the start of a line; `None` if it is blank.
fn indentation(line: &[u8]) -> Option<usize> {
    let spaces = line.iter().take_while(|byte| **byte == b' ').count();
    let rest = line[spaces..].iter().find(|byte| !b" \t\r".contains(byte));
    rest.filter(|byte| **byte != b'\n').map(|_| spaces)
}

/// True at the start of a line `---` or `...`.
fn is_marker(line: &[u8]) -> bool {
    let is_dots = line.starts_with(b"---") || line.starts_with(b"...");
    is_dots && is_blank(line.get(3).copied())
}

/// True for white space and at the end of the text.
fn is_blank(byte: Option<u8>) -> bool {
    byte.is_none_or(|byte| b" \t\r\n".contains(&byte))
}

fn is_flow_indicator(byte: u8) -> bool {
    b",[]{}".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_inside_quotes_are_found() {
        for (text, lines) in [
            ("a: 'x\ny'\nb: \"x\n\n  y\n\"\n", &[2, 5, 6][..]),
            ("a: it's\nb: 'x\ny'", &[3]),
            ("a: x 'y\n  'z\nb: 'x\ny'", &[4]),
            ("# don't\na: 1 # don't\nb: 'x\ny'", &[4]),
            ("a: |\n  'x\n  y\n\n  'z\nb: 'x\ny'", &[7]),
            ("a:\n- |2- # c\n   'x\n- >\n  \"x\n- 'x\ny'", &[7]),
            ("- a: |\n    'x\n  b: 'x\ny'", &[4]),
            ("a: !!str &b 'x\ny'", &[2]),
            ("? 'x'\n: 'x\ny'\n- - 'x\ny'", &[3, 5]),
            ("{\"a\":\"x\ny\",b: [it's, 'x\ny'], 'c':'x\ny'}", &[2, 3, 4]),
            ("{a: x\n'y, b: 'x\ny'}", &[3]),
            ("a: 'it''s\nx'\nb: \"\\\"\nx\\\\\"\nc: '", &[2, 4]),
            ("a: \"x\\\ny\"", &[2]),
            ("a: \"x\r\n\r\ny\"", &[3]),
            ("a: 'x\n---\nb: 'x\ny'", &[4]),
            ("--- |\n 'x\n'y\n--- 'x\ny'", &[5]),
            ("a: b:'x\nc: d#'x\ne: *f\ng: @'x\n", &[]),
        ] {
            let starts: Vec<_> =
                std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
            let found = continuation_lines(text);
            let expected: Vec<_> = lines.iter().map(|line| starts[line - 1]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
