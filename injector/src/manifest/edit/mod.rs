//! A changed tree as edits of the text: every byte that no edit covers stays.

mod block;
mod flow;

use std::ops::Range;

use documents::yaml::YamlError;
use serde_json::Value;

use super::render::{Layout, Style, hanging};
use super::source::{BOM, Source};
use super::tree::{Collection, Item, Kind, Node, Slot};

/// A text after edits.
pub(super) struct Edited {
    /// It.
    pub(super) text: String,
    /// Whether whole lines came and went in block collections, and nothing stood or was written
    /// there whose meaning depends on what is around it. So it reads as it has to if the document
    /// held no anchors, tags and the like.
    pub(super) certain: bool,
}

/// Writes a document anew where its tree is marked, so that it reads as `value`.
pub(super) fn edited(
    source: &Source<'_>,
    style: Style,
    root: &Node,
    value: &Value,
) -> Result<Edited, YamlError> {
    let mut editor = Editor::new(source, style);
    if is_fresh(root) {
        editor.root(root, value)?;
    } else {
        editor.inside(root, value, 0)?;
    }
    let end = source.text.len();
    let mut text = editor.excerpt(0..end)?;
    // New last lines end as lines do: a block scalar there would read differently otherwise.
    let last = editor.edits.iter().filter(|edit| edit.range.end == end);
    if !source.text.ends_with('\n') && last.into_iter().any(|edit| edit.text.contains('\n')) {
        text.push_str(source.eol);
    }
    let commented = source.text.contains('#');
    let certain = editor.certain
        && is_plain(source)
        && editor.edits.iter().all(|edit| edit.is_plain(commented));
    Ok(Edited { text, certain })
}

struct Editor<'a> {
    source: &'a Source<'a>,
    style: Style,
    edits: Vec<Edit>,
    /// Whether every edit so far was one of whole lines in a block collection.
    certain: bool,
}

struct Edit {
    range: Range<usize>,
    text: String,
}

impl<'a> Editor<'a> {
    fn new(source: &'a Source<'a>, style: Style) -> Self {
        Self { source, style, edits: Vec::new(), certain: true }
    }

    fn root(&mut self, root: &Node, value: &Value) -> Result<(), YamlError> {
        self.certain = false;
        let eol = self.source.eol;
        let text = if self.source.byte(root.start) == Some(b'{') {
            let layout = Layout::Lines { indent: String::new(), step: "  ".to_owned() };
            layout.value(value, eol)?
        } else {
            hanging(&self.style.lines(value)?, 0, eol)
        };
        self.replace(root.start..root.end, text);
        Ok(())
    }

    /// Edits a collection that stays, and what is in it. `floor` is where the text before ends.
    fn inside(&mut self, node: &Node, value: &Value, floor: usize) -> Result<(), YamlError> {
        let Kind::Collection(collection) = &node.kind else {
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
                Around::Flow(layout) => self.renew_in_flow(item, value, layout),
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

    /// The text of a range with the edits made so far.
    fn excerpt(&mut self, range: Range<usize>) -> Result<String, YamlError> {
        // Insertions go before a deletion that starts there. The sort is stable: of insertions at
        // one place, those of inner collections come first.
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
    /// Whether its text has no block scalar but those that end with their last line of text and
    /// are indented by it; where comments follow, which could be taken for such lines, none.
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

/// Whether no line of a text depends on those below it, or on how lines are told apart.
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

/// What kind of collection an item is in.
enum Around<'a> {
    /// A block collection in this column.
    Block(usize),
    /// One in brackets.
    Flow(&'a Layout),
}

/// Whether a node is written anew: because it is marked so, or because nothing of it stays.
fn is_fresh(node: &Node) -> bool {
    match &node.kind {
        Kind::Collection(collection) => collection.dirty && kept(&collection.slots).is_empty(),
        kind => matches!(kind, Kind::Fresh),
    }
}

/// The items that stay where they are: the longest run of the text's order in the new one.
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

/// What a slot is to read as; null for what is never written, such as a merge key.
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
