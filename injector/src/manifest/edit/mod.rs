//! Conversion of a changed tree into edits of the text. Every byte outside the edits stays.

mod block;
mod flow;

use std::ops::Range;

use documents::yaml::YamlError;
use serde_json::Value;

use super::render::{BlockText, Layout, hanging};
use super::source::{BOM, Source};
use super::tree::{Collection, Item, Node, NodeKind, Slot};

/// An edited text.
pub(super) struct Edited {
    /// The text.
    pub(super) text: String,
    /// True if the edits were only whole lines of block collections, and neither the old nor the
    /// new lines depend on their context. Then the text is correct if the document has no anchors,
    /// tags and the like.
    pub(super) certain: bool,
}

/// Rewrites the marked parts of a document, so that it parses as `value`.
pub(super) fn edited<'a>(
    source: &'a Source<'a>,
    block: BlockText<'a>,
    root: &Node,
    value: &Value,
) -> Result<Edited, YamlError> {
    let mut editor = Editor::new(source, block);
    if is_fresh(root) {
        editor.root(root, value)?;
    } else {
        editor.inside(root, value, 0)?;
    }
    let end = source.text.len();
    let mut text = editor.excerpt(0..end)?;
    // A file without a last line break stays one, so that it can come back byte for byte. In a block
    // scalar, the line break belongs to the value.
    let last: Vec<_> = editor.edits.iter().filter(|edit| edit.range.end == end).collect();
    if !source.text.ends_with('\n') && !last.is_empty() {
        if last.iter().any(|edit| edit.text.contains('\n') && ends_in_block_scalar(&edit.text)) {
            text.push_str(source.eol);
        } else if !ends_in_block_scalar(&text) {
            let kept = text.trim_end_matches(['\r', '\n']).len();
            text.truncate(kept);
        }
    }
    let commented = source.text.contains('#');
    let certain = editor.certain
        && is_plain(source)
        && editor.edits.iter().all(|edit| edit.is_plain(commented));
    Ok(Edited { text, certain })
}

/// True if the last line may belong to a block scalar: a line that it is nested in ends as a header.
fn ends_in_block_scalar(text: &str) -> bool {
    let indentation = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
    let mut lines = text.lines().rev().filter(|line| !line.trim().is_empty());
    let Some(mut nested) = lines.next().map(indentation) else { return false };
    lines.any(|line| {
        let depth = line.len() - line.trim_start().len();
        if depth >= nested {
            return false;
        }
        nested = depth;
        let line = line.split(" #").next().unwrap_or_default().trim_end();
        let line = line.trim_end_matches(|c: char| c.is_ascii_digit() || c == '+' || c == '-');
        line.ends_with(['|', '>'])
    })
}

struct Editor<'a> {
    source: &'a Source<'a>,
    block: BlockText<'a>,
    edits: Vec<Edit>,
    /// True if every edit so far consists of whole lines in a block collection.
    certain: bool,
}

struct Edit {
    range: Range<usize>,
    text: String,
}

impl<'a> Editor<'a> {
    fn new(source: &'a Source<'a>, block: BlockText<'a>) -> Self {
        Self { source, block, edits: Vec::new(), certain: true }
    }

    fn root(&mut self, root: &Node, value: &Value) -> Result<(), YamlError> {
        self.certain = false;
        let eol = self.source.eol;
        let text = if self.source.byte(root.start) == Some(b'{') {
            let layout = Layout::Lines { indent: String::new(), step: "  ".to_owned() };
            layout.value(value, self.block.spellings, eol)
        } else {
            hanging(&self.block.lines(value)?, 0, eol)
        };
        self.replace(root.start..root.end, text);
        Ok(())
    }

    /// Edits the contents of a collection that stays. `floor` is the end of the text before it.
    fn inside(&mut self, node: &Node, value: &Value, floor: usize) -> Result<(), YamlError> {
        let NodeKind::Collection(collection) = &node.kind else {
            return Ok(());
        };
        if !collection.dirty {
            return Ok(());
        }
        if collection.flow {
            self.flow(node, collection, value)
        } else {
            self.block(collection, value, floor)
        }
    }

    /// Edits the value of an item that stays.
    fn item(&mut self, item: &Item, value: &Value, around: &Around<'_>) -> Result<(), YamlError> {
        if is_fresh(&item.value) {
            return match around {
                Around::Block(column) => self.renew_in_block(item, value, *column),
                Around::Flow(layout) => {
                    self.renew_in_flow(item, value, layout);
                    Ok(())
                }
            };
        }
        self.inside(&item.value, value, item.after.unwrap_or(item.start))
    }

    fn insert(&mut self, at: usize, text: String) {
        self.replace(at..at, text);
    }

    fn replace(&mut self, range: Range<usize>, text: String) {
        self.edits.push(Edit { range, text });
    }

    /// Returns the text of a range with the edits made so far.
    fn excerpt(&mut self, range: Range<usize>) -> Result<String, YamlError> {
        // Insertions precede a deletion that starts at the same place. The sort is stable, so the
        // insertions of inner collections come first.
        self.edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
        let removed: usize = self.edits.iter().map(|edit| edit.range.len()).sum();
        let added: usize = self.edits.iter().map(|edit| edit.text.len()).sum();
        let mut text = String::with_capacity((range.len() + added).saturating_sub(removed));
        let mut position = range.start;
        for edit in &self.edits {
            if edit.range.start < position || edit.range.end > range.end {
                return Err(unsupported());
            }
            text.push_str(&self.source.text[position..edit.range.start]);
            text.push_str(&edit.text);
            position = edit.range.end;
        }
        text.push_str(&self.source.text[position..range.end]);
        Ok(text)
    }
}

impl Edit {
    /// True if every block scalar in the text has the plain header `|`, so that it ends with its
    /// last line of text and takes its indentation from it. If the document has comments, no block
    /// scalar is allowed, because a following comment could be taken for a line of it.
    fn is_plain(&self, commented: bool) -> bool {
        let plain = |line: &str| {
            let line = match line.strip_suffix('-').unwrap_or(line).strip_suffix(": |") {
                Some(key) if !commented => key,
                _ => line,
            };
            !line.contains(['|', '>'])
        };
        self.text.split('\n').all(plain)
    }
}

/// True if no line of a text depends on the lines below it, or on the kind of line break.
fn is_plain(source: &Source<'_>) -> bool {
    let (mut comment, mut block, mut other) = (false, false, false);
    for byte in source.text.bytes() {
        comment |= byte == b'#';
        block |= matches!(byte, b'|' | b'>');
        other |= matches!(byte, b'\t' | b'\r' | b'+');
    }
    let ends = source.text.ends_with('\n') && !source.text.contains("\n...");
    let doubtful = other || comment && block || source.text.starts_with(BOM);
    ends && !doubtful
}

/// The collection around an item.
enum Around<'a> {
    /// A block collection in this column.
    Block(usize),
    /// A flow collection.
    Flow(&'a Layout),
}

/// True if a node is rewritten: it is marked for that, or nothing of it stays.
fn is_fresh(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Collection(collection) => collection.dirty && kept(&collection.slots).is_empty(),
        kind => matches!(kind, NodeKind::Fresh),
    }
}

/// Returns the items that stay in place: the longest subsequence in the order of the text.
fn kept(slots: &[Slot]) -> Vec<usize> {
    let old = slots.iter().filter_map(|slot| match slot {
        Slot::New(_) => None,
        Slot::Old(at) => Some(*at),
    });
    if old.clone().is_sorted() {
        return old.collect();
    }
    // Patience sorting: `runs[n]` is the run of length n + 1 with the lowest end so far.
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for at in old {
        let position = runs.partition_point(|run| run.last() < Some(&at));
        let mut run =
            position.checked_sub(1).map_or_else(Vec::new, |shorter| runs[shorter].clone());
        run.push(at);
        match runs.get_mut(position) {
            Some(longer) => *longer = run,
            None => runs.push(run),
        }
    }
    runs.pop().unwrap_or_default()
}

/// Returns the new value of a slot; null for slots that are never written, such as a merge key.
fn slot_value<'v>(
    collection: &Collection,
    slot: &Slot,
    position: usize,
    value: &'v Value,
) -> &'v Value {
    let key = match slot {
        Slot::New(key) => key.as_deref(),
        Slot::Old(at) => collection.items[*at].key.as_deref(),
    };
    let found =
        if collection.map { key.and_then(|key| value.get(key)) } else { value.get(position) };
    found.unwrap_or(&Value::Null)
}

fn unsupported() -> YamlError {
    let problem = "the change cannot be made in place".to_owned();
    YamlError { line: 0, column: 0, problem }
}
