//! Rendering of a value as text.

use std::collections::BTreeSet;
use std::fmt::Write;

use proptest::prelude::*;
use serde_json::Value;

use crate::changes::Changes;
use crate::layout::{Comments, Layout, Node};

/// A text and its parts. A part must stay as long as one of its marks is untouched.
pub(crate) struct PodText {
    pub(crate) text: String,
    layout: Layout,
    parts: Vec<(BTreeSet<String>, String)>,
    anchors: Vec<String>,
    maps: Vec<String>,
    merges: bool,
    count: usize,
}

impl PodText {
    pub(crate) fn from_pod(pod: &Node, layout: Layout) -> Self {
        let mut written = Self {
            text: String::new(),
            layout,
            parts: Vec::new(),
            anchors: Vec::new(),
            maps: Vec::new(),
            merges: false,
            count: 0,
        };
        if layout.separator {
            written.text.push_str("---\n");
        }
        written.text.push_str("apiVersion: v1\nkind: Pod # the kind\n");
        let Node::Map { entries, .. } = pod else { unreachable!("the root is a mapping") };
        written.entries(entries, 0, false);
        if !layout.final_newline {
            written.text.truncate(written.text.trim_end().len());
        }
        if layout.crlf {
            written.text = written.text.replace('\n', "\r\n");
        }
        written
    }

    /// Checks that every untouched part is present, in the same order.
    pub(crate) fn assert_kept(&self, text: &str, changes: &Changes) -> Result<(), TestCaseError> {
        // A mapping from which a merged entry is removed is rewritten.
        if self.merges {
            return Ok(());
        }
        let lines: Vec<_> = text.lines().map(bare).collect();
        let mut position = 0;
        for (marks, part) in &self.parts {
            if marks.iter().all(|mark| changes.touched.contains(mark)) {
                continue;
            }
            let start = if changes.moved { 0 } else { position };
            let found = lines[start..].iter().position(|line| line.contains(bare(part)));
            prop_assert!(
                found.is_some(),
                "lost: {part:?}\n{}\nafter {}\nbecame\n{text}",
                self.text,
                Value::Array(changes.operations.clone())
            );
            position = start + found.unwrap_or_default();
        }
        let crlf = text.matches("\r\n").count();
        prop_assert_eq!(
            text.matches('\n').count(),
            if self.layout.crlf { crlf } else { text.matches('\n').count() }
        );
        Ok(())
    }

    fn entries(&mut self, entries: &[(u8, Comments, Node)], indent: usize, inline: bool) {
        for (index, (style, comments, value)) in entries.iter().enumerate() {
            let first = inline && index == 0;
            let above = self.begin(*comments, indent, first);
            let start = self.text.len();
            let key = self.key(*style);
            write!(self.text, "{key}:").unwrap();
            let marks =
                self.value(value, *comments, start, (indent, self.layout.step, self.layout.dash));
            self.own(above, &marks);
        }
        if let Some((style, ..)) = entries.iter().find(|(style, ..)| *style > 230)
            && !self.maps.is_empty()
        {
            let anchor = &self.maps[usize::from(*style) % self.maps.len()];
            writeln!(self.text, "{:indent$}<<: *{anchor}", "").unwrap();
            self.merges = true;
        }
    }

    fn items(&mut self, items: &[(Comments, Node)], indent: usize, inline: bool) {
        for (index, (comments, value)) in items.iter().enumerate() {
            let above = self.begin(*comments, indent, inline && index == 0);
            let start = self.text.len();
            self.text.push('-');
            let marks = match value {
                Node::Map { flow: false, entries } if !entries.is_empty() && !comments.beside => {
                    let parts = self.parts.len();
                    self.text.extend(std::iter::repeat_n(' ', self.layout.gap));
                    self.entries(entries, indent + 1 + self.layout.gap, true);
                    self.marks_since(parts)
                }
                Node::Sequence { flow: false, items } if !items.is_empty() && !comments.beside => {
                    let parts = self.parts.len();
                    self.text.extend(std::iter::repeat_n(' ', self.layout.gap));
                    self.items(items, indent + 1 + self.layout.gap, true);
                    self.marks_since(parts)
                }
                value => self.value(value, *comments, start, (indent, 2, 2)),
            };
            self.own(above, &marks);
        }
    }

    /// Writes blank line and comment above; returns the index of the comment's part.
    fn begin(&mut self, comments: Comments, indent: usize, inline: bool) -> Option<usize> {
        let above = (!inline && comments.above).then_some(self.parts.len());
        if inline {
            return above;
        }
        if comments.blank {
            self.text.push('\n');
        }
        if comments.above {
            self.count += 1;
            let comment = format!("# above{}.", self.count);
            writeln!(self.text, "{:indent$}{comment}", "").unwrap();
            self.parts.push((BTreeSet::new(), comment));
        }
        self.text.extend(std::iter::repeat_n(' ', indent));
        above
    }

    /// Assigns the comment above to the element below it.
    fn own(&mut self, above: Option<usize>, marks: &BTreeSet<String>) {
        if let Some(above) = above {
            self.parts[above].0.extend(marks.iter().cloned());
        }
    }

    fn marks_since(&self, parts: usize) -> BTreeSet<String> {
        self.parts[parts..].iter().flat_map(|(marks, _)| marks.iter().cloned()).collect()
    }

    fn value(
        &mut self,
        value: &Node,
        comments: Comments,
        start: usize,
        (indent, step, dash): (usize, usize, usize),
    ) -> BTreeSet<String> {
        let parts = self.parts.len();
        self.count += 1;
        let beside =
            if comments.beside { format!(" # beside{}.", self.count) } else { String::new() };
        match value {
            Node::Map { flow: false, entries } if !entries.is_empty() => {
                let anchor = self.anchor(comments.blank);
                writeln!(self.text, "{anchor}{beside}").unwrap();
                self.entries(entries, indent + step, false);
                self.anchors.extend(anchor.strip_prefix(" &").map(str::to_owned));
                self.maps.extend(anchor.strip_prefix(" &").map(str::to_owned));
            }
            Node::Sequence { flow: false, items } if !items.is_empty() => {
                let anchor = self.anchor(comments.blank);
                writeln!(self.text, "{anchor}{beside}").unwrap();
                self.items(items, indent + dash, false);
                self.anchors.extend(anchor.strip_prefix(" &").map(str::to_owned));
            }
            Node::Scalar(style) if style % 8 >= 6 => {
                let mark = self.mark();
                let header = if style % 8 == 6 { "|" } else { ">-" };
                let body = " ".repeat(indent + step);
                writeln!(self.text, " {header}{beside}\n{body}{mark} # text\n\n{body}  more")
                    .unwrap();
                self.parts.push((BTreeSet::from([mark.clone()]), format!("{mark} # text")));
            }
            Node::Scalar(style) => {
                let (text, mark) = self.scalar(*style);
                writeln!(self.text, " {text}{beside}").unwrap();
                let marks: BTreeSet<_> = mark.into_iter().collect();
                if !marks.is_empty() {
                    let line = self.text[start..].trim_end().to_owned();
                    self.parts.push((marks, line));
                }
            }
            flow => {
                let text = self.flow(flow);
                writeln!(self.text, " {text}{beside}").unwrap();
            }
        }
        self.marks_since(parts)
    }

    fn flow(&mut self, value: &Node) -> String {
        match value {
            Node::Map { entries, .. } => {
                let mut texts = Vec::new();
                for (style, _, value) in entries {
                    texts.push(format!("{}: {}", self.key(*style), self.flow(value)));
                }
                format!("{{{}}}", texts.join(", "))
            }
            Node::Scalar(style) => {
                let (text, mark) = self.scalar(*style % 6);
                if let Some(mark) = mark {
                    self.parts.push((BTreeSet::from([mark]), text.clone()));
                }
                text
            }
            Node::Sequence { items, .. } => {
                let texts: Vec<_> = items.iter().map(|(_, item)| self.flow(item)).collect();
                format!("[{}]", texts.join(", "))
            }
        }
    }

    fn scalar(&mut self, style: u8) -> (String, Option<String>) {
        let mark = self.mark();
        let text = match style % 6 {
            0 => mark.clone(),
            1 => format!("'{mark} ''q'''"),
            2 => format!("\"{mark} \\u00e9\""),
            3 => format!("{mark} plain: no"),
            4 if style.is_multiple_of(5) => return ("0644".to_owned(), None),
            4 if style % 5 == 1 => return ("~".to_owned(), None),
            4 => {
                let anchor = self.anchor(true);
                self.anchors.extend(anchor.strip_prefix(" &").map(str::to_owned));
                format!("{} {mark}", anchor.trim_start())
            }
            _ => {
                let index = usize::from(style) % self.anchors.len().max(1);
                let alias = self.anchors.get(index);
                return (alias.map_or("~".to_owned(), |anchor| format!("*{anchor} ")), None);
            }
        };
        (text.replace(": no", " of words"), Some(mark))
    }

    fn anchor(&mut self, wanted: bool) -> String {
        self.count += 1;
        if wanted { format!(" &a{}", self.count) } else { String::new() }
    }

    fn key(&mut self, style: u8) -> String {
        self.count += 1;
        match style % 4 {
            0 => format!("k/{}", self.count),
            1 => format!("'k {}'", self.count),
            2 => format!("\"k~{}\"", self.count),
            _ => format!("k{}", self.count),
        }
    }

    fn mark(&mut self) -> String {
        self.count += 1;
        format!("mark{}", self.count)
    }
}

/// Returns a line without the parts that change when it gets or loses a dash.
fn bare(line: &str) -> &str {
    line.trim_start_matches([' ', '-']).trim_end()
}
