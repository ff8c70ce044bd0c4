//! Edits of any YAML by any patch: the result reads as it has to, and what the patch does not
//! touch is there as it was.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fmt::Write;

use injector::manifest::{Document, Edit, Manifest};
use injector::yaml;
use json_patch::Patch;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_edit_is_right_and_touches_nothing_else(
        pod in map(),
        layout in layout(),
        steps in prop::collection::vec(step(), 1..6),
    ) {
        let written = Written::of(&pod, layout);
        let documents = Document::split(&written.text);
        prop_assert_eq!(documents.len(), 1);
        let manifest = Manifest::read(&documents[0]).unwrap();
        let template = &manifest.pods()[0];
        let before = manifest.pod(template);
        prop_assert_eq!(before, &yaml::parse(&written.text).unwrap());

        let mut changes = Changes { pod: before.clone(), ..Changes::default() };
        for step in &steps {
            changes.apply(step);
        }
        let patch: Patch = serde_json::from_value(Value::Array(changes.operations.clone())).unwrap();
        let edit = Edit { template, patch: &patch, pod: &changes.pod };
        let text = manifest.edit(&[edit]).unwrap();
        prop_assert_eq!(&yaml::parse(&text).unwrap(), &changes.pod);
        written.assert_kept(&text, &changes)?;
    }

    #[test]
    fn no_text_makes_it_panic(text in "(apiVersion: v1\nkind: (Pod|List)\n)?([-:?&*!|>{}\\[\\],#'\" a\n\t\r\u{feff}é]|<<|spec|---|items){0,60}") {
        for document in Document::split(&text) {
            if let Ok(manifest) = Manifest::read(&document) {
                for template in manifest.pods() {
                    let mut pod = manifest.pod(template).clone();
                    let patch: Patch = serde_json::from_value(json!([
                        {"op": "add", "path": "/metadata", "value": {"labels": {"a": "b"}}},
                    ])).unwrap();
                    json_patch::patch(&mut pod, &patch).unwrap();
                    let edited = manifest.edit(&[Edit { template, patch: &patch, pod: &pod }]);
                    if let Ok(edited) = edited {
                        yaml::parse(&edited).unwrap();
                    }
                }
            }
        }
    }
}

/// A value with the way it is written.
#[derive(Clone, Debug)]
enum Node {
    Map { flow: bool, entries: Vec<(u8, Comments, Node)> },
    Scalar(u8),
    Sequence { flow: bool, items: Vec<(Comments, Node)> },
}

/// What stands around an entry or item.
#[derive(Clone, Copy, Debug)]
struct Comments {
    above: bool,
    beside: bool,
    blank: bool,
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    step: usize,
    dash: usize,
    gap: usize,
    crlf: bool,
    final_newline: bool,
    separator: bool,
}

fn layout() -> impl Strategy<Value = Layout> {
    (1..=4_usize, 0..=3_usize, 1..=3_usize, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(step, dash, gap, crlf, final_newline, separator)| Layout {
            step,
            dash,
            gap,
            crlf,
            final_newline,
            separator,
        },
    )
}

fn comments() -> impl Strategy<Value = Comments> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(above, beside, blank)| Comments {
        above,
        beside,
        blank,
    })
}

fn node() -> impl Strategy<Value = Node> {
    any::<u8>().prop_map(Node::Scalar).prop_recursive(4, 24, 4, |inner| {
        let entry = (any::<u8>(), comments(), inner.clone());
        prop_oneof![
            (prop::bool::weighted(0.2), prop::collection::vec(entry, 0..4))
                .prop_map(|(flow, entries)| Node::Map { flow, entries }),
            (prop::bool::weighted(0.2), prop::collection::vec((comments(), inner), 0..4))
                .prop_map(|(flow, items)| Node::Sequence { flow, items }),
        ]
    })
}

fn map() -> impl Strategy<Value = Node> {
    prop::collection::vec((any::<u8>(), comments(), node()), 1..5)
        .prop_map(|entries| Node::Map { flow: false, entries })
}

/// One operation, of whatever can be done to the value at hand.
#[derive(Clone, Debug)]
struct Step {
    what: u8,
    place: Index,
    other: Index,
    value: Value,
}

fn step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![
        Just(json!("plain")),
        Just(json!("yes")),
        Just(json!("{\"a\": 'b'}")),
        Just(json!("two\nlines\n")),
        Just(json!("\ttab\nline")),
        Just(json!("# no comment")),
        Just(json!("")),
        Just(json!(null)),
        Just(json!(1.5)),
        Just(json!([])),
        Just(json!({})),
        Just(json!({"name": "x", "list": [1, {"a": "b\n\n"}], "map": {"k": [["n"], []]}})),
        Just(json!([{"name": "x", "value": "y"}, "z", ["a"]])),
    ];
    (any::<u8>(), any::<Index>(), any::<Index>(), value)
        .prop_map(|(what, place, other, value)| Step { what, place, other, value })
}

/// A patch as it grows, with the marks of the values that it touches.
#[derive(Default)]
struct Changes {
    pod: Value,
    operations: Vec<Value>,
    touched: BTreeSet<String>,
    moved: bool,
}

impl Changes {
    fn apply(&mut self, step: &Step) {
        let mut places = Vec::new();
        collections(&self.pod, String::new(), &mut places);
        let place = step.place.get(&places).clone();
        let fresh = format!("new{}", self.operations.len());
        let operation = match self.pod.pointer(&place).unwrap() {
            Value::Array(items) if !items.is_empty() => {
                let (at, to) = (step.other.index(items.len()), step.place.index(items.len()));
                match step.what % 4 {
                    0 => json!({"op": "add", "path": format!("{place}/{at}"), "value": step.value}),
                    1 => json!({"op": "remove", "path": format!("{place}/{at}")}),
                    2 => {
                        json!({"op": "replace", "path": format!("{place}/{at}"), "value": step.value})
                    }
                    _ => {
                        json!({"op": "move", "from": format!("{place}/{at}"), "path": format!("{place}/{to}")})
                    }
                }
            }
            Value::Object(entries)
                if entries.len() > 2 || place.len() > 2 && !entries.is_empty() =>
            {
                let key = step.other.get(&entries.keys().collect::<Vec<_>>()).replace('~', "~0");
                let path = format!("{place}/{}", key.replace('/', "~1"));
                let kept = matches!(path.as_str(), "/apiVersion" | "/kind");
                match step.what % 3 {
                    0 if !kept => json!({"op": "remove", "path": path}),
                    1 if !kept => json!({"op": "replace", "path": path, "value": step.value}),
                    _ => {
                        json!({"op": "add", "path": format!("{place}/{fresh}"), "value": step.value})
                    }
                }
            }
            Value::Array(_) => {
                json!({"op": "add", "path": format!("{place}/-"), "value": step.value})
            }
            _ => json!({"op": "add", "path": format!("{place}/{fresh}"), "value": step.value}),
        };
        match operation["op"].as_str().unwrap() {
            "move" => self.moved = true,
            "add" => {}
            _ => {
                let path = operation["path"].as_str().unwrap();
                marks(self.pod.pointer(path).unwrap(), &mut self.touched);
            }
        }
        let patch: Patch = serde_json::from_value(json!([operation])).unwrap();
        json_patch::patch(&mut self.pod, &patch).unwrap();
        self.operations.push(operation);
    }
}

fn collections(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collections(item, format!("{place}/{index}"), places);
            }
        }
        Value::Object(entries) => {
            for (key, value) in entries {
                let key = key.replace('~', "~0").replace('/', "~1");
                collections(value, format!("{place}/{key}"), places);
            }
        }
        _ => return,
    }
    places.push(place);
}

fn marks(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| marks(item, found)),
        Value::Object(entries) => entries.values().for_each(|value| marks(value, found)),
        Value::String(text) => {
            found.extend(
                text.split_whitespace().filter(|word| word.starts_with("mark")).map(str::to_owned),
            );
        }
        _ => {}
    }
}

/// A text, and which of its parts have to be there as long as one of these marks is untouched.
struct Written {
    text: String,
    layout: Layout,
    parts: Vec<(BTreeSet<String>, String)>,
    anchors: Vec<String>,
    maps: Vec<String>,
    merges: bool,
    count: usize,
}

impl Written {
    fn of(pod: &Node, layout: Layout) -> Self {
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

    /// Every part that is not touched is there, and in the same order.
    fn assert_kept(&self, text: &str, changes: &Changes) -> Result<(), TestCaseError> {
        // A mapping from which a merged entry is removed is written anew.
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

    /// Blank line and comment above; returns the index of the comment's part.
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

    /// The comment above belongs to what it stands above.
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
            4 if style % 5 == 0 => return ("0644".to_owned(), None),
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

/// A line without what changes when it gets or loses a dash.
fn bare(line: &str) -> &str {
    line.trim_start_matches([' ', '-']).trim_end()
}
