//! A changed tree as edits of the text: every byte that no edit covers stays.

use std::ops::Range;

use serde_json::Value;

use super::render::{Layout, Style, hanging, is_block};
use super::source::Source;
use super::tree::{Collection, Item, Kind, Node, Slot};
use crate::yaml::YamlError;

/// Writes a document anew where its tree is marked, so that it reads as `value`.
pub(super) fn edited(
    source: &Source<'_>,
    style: Style,
    root: &Node,
    value: &Value,
) -> Result<String, YamlError> {
    let mut editor = Editor::new(source, style);
    if is_fresh(source, root) {
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
    Ok(text)
}

struct Editor<'a> {
    source: &'a Source<'a>,
    style: Style,
    edits: Vec<Edit>,
}

struct Edit {
    range: Range<usize>,
    text: String,
}

impl<'a> Editor<'a> {
    fn new(source: &'a Source<'a>, style: Style) -> Self {
        Self { source, style, edits: Vec::new() }
    }

    fn root(&mut self, root: &Node, value: &Value) -> Result<(), YamlError> {
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

    fn block(
        &mut self,
        collection: &Collection,
        value: &Value,
        floor: usize,
    ) -> Result<(), YamlError> {
        let source = self.source;
        let eol = source.eol;
        let kept = kept(&collection.slots);
        let place = Place::of(source, collection, floor);
        let (mut before, mut after) = (Vec::new(), vec![Vec::new(); collection.items.len()]);
        let mut last_kept = None;
        for (position, slot) in collection.slots.iter().enumerate() {
            let value = slot_value(collection, slot, position, value);
            if let Slot::Old(at) = *slot
                && kept.binary_search(&at).is_ok()
            {
                self.item(&collection.items[at], value, &Around::Block(place.column))?;
                last_kept = Some(at);
                continue;
            }
            let text = match slot {
                Slot::New(Some(key)) => self.style.entry(key, value)?,
                Slot::New(None) => format!("-{}", self.style.item_value(value)?),
                Slot::Old(at) => self.moved(collection, *at, value, &place)?,
            };
            let indent = " ".repeat(place.column);
            let text = match slot {
                Slot::New(_) => format!("{indent}{}", hanging(&text, place.column, eol)),
                Slot::Old(_) => text,
            };
            last_kept.map_or(&mut before, |at: usize| &mut after[at]).push(text);
        }
        self.delete_from_block(collection, &kept, &place);
        if let (false, Some(&first)) = (before.is_empty(), kept.first()) {
            if first == 0 && place.inline {
                let text = format!("{}{eol}{}", before.join(eol), " ".repeat(place.column));
                let text = text[place.column..].to_owned();
                self.insert(collection.items[0].start, text);
            } else {
                let lead = source.lead_start(collection.items[first].start, place.floor(first));
                self.insert(lead, format!("{}{eol}", before.join(eol)));
            }
        }
        for (at, texts) in after.into_iter().enumerate() {
            for text in texts {
                self.insert(place.extent_end(at), format!("{eol}{text}"));
            }
        }
        Ok(())
    }

    /// The text of an item that moves, with the comments above it and all changes in it.
    fn moved(
        &self,
        collection: &Collection,
        at: usize,
        value: &Value,
        place: &Place<'_>,
    ) -> Result<String, YamlError> {
        let mut editor = Editor::new(self.source, self.style);
        let item = &collection.items[at];
        editor.item(item, value, &Around::Block(place.column))?;
        if at == 0 && place.inline {
            let text = editor.excerpt(item.start..place.extent_end(at))?;
            return Ok(format!("{}{text}", " ".repeat(place.column)));
        }
        let lead = self.source.lead_start(item.start, place.floor(at));
        editor.excerpt(lead..place.extent_end(at))
    }

    fn delete_from_block(&mut self, collection: &Collection, kept: &[usize], place: &Place<'_>) {
        let source = self.source;
        for (at, item) in collection.items.iter().enumerate() {
            if kept.binary_search(&at).is_ok() {
                continue;
            }
            let moves = collection.slots.contains(&Slot::Old(at));
            if at == 0 && place.inline {
                // The next entry takes its place behind the dash, unless comments stand between.
                let next = collection.items.get(1).map_or(item.end(), |next| next.start);
                let end = if source.text[item.end()..next].contains('#') {
                    source.line_end(item.end())
                } else {
                    next
                };
                self.replace(item.start..end, String::new());
                continue;
            }
            let start = if moves {
                source.lead_start(item.start, place.floor(at))
            } else {
                source.line_start(item.start)
            };
            let end = place.extent_end(at);
            if start >= source.eol.len() && source.text[..start].ends_with(source.eol) {
                self.replace(start - source.eol.len()..end, String::new());
            } else {
                self.replace(start..source.next_line(end).unwrap_or(end), String::new());
            }
        }
    }

    fn flow(
        &mut self,
        node: &Node,
        collection: &Collection,
        value: &Value,
    ) -> Result<(), YamlError> {
        let source = self.source;
        let eol = source.eol;
        let layout = Layout::of(source, node);
        let around = Around::Flow(&layout);
        let kept = kept(&collection.slots);
        let (mut before, mut after) = (Vec::new(), vec![Vec::new(); collection.items.len()]);
        let mut last_kept = None;
        for (position, slot) in collection.slots.iter().enumerate() {
            let value = slot_value(collection, slot, position, value);
            let text = match slot {
                Slot::Old(at) if kept.binary_search(at).is_ok() => {
                    self.item(&collection.items[*at], value, &around)?;
                    last_kept = Some(*at);
                    continue;
                }
                Slot::New(Some(key)) => layout.entry(key, value, eol)?,
                Slot::New(None) => layout.value(value, eol)?,
                Slot::Old(at) => {
                    let item = &collection.items[*at];
                    let mut editor = Editor::new(source, self.style);
                    editor.item(item, value, &around)?;
                    editor.excerpt(item.start..item.end())?
                }
            };
            last_kept.map_or(&mut before, |at: usize| &mut after[at]).push(text);
        }
        let between = layout.between(eol);
        if let (false, Some(&first)) = (before.is_empty(), kept.first()) {
            let text = format!("{}{between}", before.join(&between));
            self.insert(collection.items[first].start, text);
        }
        for (at, texts) in after.into_iter().enumerate() {
            if !texts.is_empty() {
                self.insert_in_flow(collection.items[at].end(), &texts.join(&between), &between);
            }
        }
        self.delete_from_flow(collection, &kept);
        Ok(())
    }

    /// Inserts items after the one that ends at `end`, and behind the comment beside it.
    fn insert_in_flow(&mut self, end: usize, text: &str, between: &str) {
        let source = self.source;
        let line_end = source.line_end(end);
        let (code, comment) = source.text[end..line_end].split_once('#').unwrap_or_default();
        let between_lines = between.trim_start_matches(',');
        match code.trim() {
            "" if !comment.is_empty() => {
                self.insert(end, ",".to_owned());
                self.insert(line_end, format!("{between_lines}{text}"));
            }
            "," => self.insert(line_end, format!("{between_lines}{text},")),
            _ => self.insert(end, format!("{between}{text}")),
        }
    }

    fn delete_from_flow(&mut self, collection: &Collection, kept: &[usize]) {
        let items = &collection.items;
        let mut at = 0;
        while at < items.len() {
            let gone = (at..items.len()).take_while(|at| kept.binary_search(at).is_err()).count();
            let next = at + gone;
            if gone > 0 {
                let range = match (items.get(next), at.checked_sub(1)) {
                    (Some(next), _) => items[at].start..next.start,
                    (None, Some(before)) => items[before].end()..items[next - 1].end(),
                    (None, None) => items[at].start..items[next - 1].end(),
                };
                self.replace(range, String::new());
            }
            at = next + 1;
        }
    }

    /// Edits the value of an item that stays.
    fn item(&mut self, item: &Item, value: &Value, around: &Around<'_>) -> Result<(), YamlError> {
        if is_fresh(self.source, &item.value) {
            return match around {
                Around::Block(column) => self.renew_in_block(item, value, *column),
                Around::Flow(layout) => self.renew_in_flow(item, value, layout),
            };
        }
        self.inside(&item.value, value, item.after.unwrap_or(item.start))
    }

    /// Writes another value after a colon or a dash, and keeps the comments there.
    fn renew_in_block(
        &mut self,
        item: &Item,
        value: &Value,
        column: usize,
    ) -> Result<(), YamlError> {
        let Some(after) = item.after else {
            return Err(unsupported());
        };
        let (source, style, node) = (self.source, self.style, &item.value);
        let eol = source.eol;
        let (beside, below) = if item.key.is_some() {
            (style.entry_value(value)?, style.below_key(value)?)
        } else {
            (style.item_value(value)?, style.below_dash(value)?)
        };
        let below = format!("{}{}", " ".repeat(column), hanging(&below, column, eol));
        let beside = hanging(&beside, column, eol);
        let line_end = source.line_end(node.end);
        if source.text[after..node.start].contains('#') {
            self.replace(source.line_start(node.start)..node.end, below);
        } else if !source.text[node.end..line_end].contains('#') {
            self.replace(after..line_end, beside);
        } else if !beside.contains('\n') {
            self.replace(after..node.end, beside);
        } else if is_block(value) {
            self.replace(after..node.end, String::new());
            self.insert(line_end, format!("{eol}{below}"));
        } else {
            self.replace(after..node.end, format!(" {value}"));
        }
        Ok(())
    }

    fn renew_in_flow(
        &mut self,
        item: &Item,
        value: &Value,
        layout: &Layout,
    ) -> Result<(), YamlError> {
        let (start, end) = (item.value.start, item.value.end);
        let space = if start == end && item.after == Some(start) { " " } else { "" };
        let text = format!("{space}{}", layout.value(value, self.source.eol)?);
        self.replace(start..end, text);
        Ok(())
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
        let mut text = String::new();
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

/// What kind of collection an item is in.
enum Around<'a> {
    /// A block collection in this column.
    Block(usize),
    /// One in brackets.
    Flow(&'a Layout),
}

/// Where the items of a block collection are.
struct Place<'a> {
    source: &'a Source<'a>,
    items: &'a [Item],
    floor: usize,
    column: usize,
    inline: bool,
}

impl<'a> Place<'a> {
    fn of(source: &'a Source<'a>, collection: &'a Collection, floor: usize) -> Self {
        let start = collection.items[0].start;
        let column = source.column(start);
        Self {
            source,
            items: &collection.items,
            floor,
            column,
            inline: !source.first_in_line(start),
        }
    }

    fn floor(&self, at: usize) -> usize {
        if at == 0 { self.floor } else { self.items[at - 1].end() }
    }

    fn extent_end(&self, at: usize) -> usize {
        let last = at + 1 == self.items.len();
        self.source.extent_end(self.items[at].end(), self.column, last)
    }
}

/// Whether a node is written anew: because it is marked so, or because nothing of it stays.
fn is_fresh(source: &Source<'_>, node: &Node) -> bool {
    let Kind::Collection(collection) = &node.kind else {
        return matches!(node.kind, Kind::Fresh);
    };
    if !collection.dirty {
        return false;
    }
    let kept = kept(&collection.slots);
    let Some(&first) = kept.first() else {
        return true;
    };
    // The first item of a collection behind a dash has no line of its own to give up.
    let inline = !collection.flow && !source.first_in_line(collection.items[0].start);
    let new_first = !matches!(collection.slots.first(), Some(Slot::Old(at)) if *at == first);
    inline && (first > 1 || first == 1 && new_first)
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
