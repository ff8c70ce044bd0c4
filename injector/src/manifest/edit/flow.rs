//! Edits of flow collections (in brackets): items are added and removed with their commas.

use std::ops::Range;

use documents::yaml::YamlError;
use serde_json::Value;

use super::{Around, Editor, kept, slot_value};
use crate::manifest::render::Layout;
use crate::manifest::tree::{Collection, Item, Node, Slot};

impl Editor<'_> {
    /// Edits the items of a flow collection.
    pub(super) fn flow(
        &mut self,
        node: &Node,
        collection: &Collection,
        value: &Value,
    ) -> Result<(), YamlError> {
        self.certain = false;
        let source = self.source;
        let eol = source.eol;
        let layout = Layout::new(source, node);
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
                Slot::New(Some(key)) => layout.entry(key, value, self.block.spellings, eol),
                Slot::New(None) => layout.value(value, self.block.spellings, eol),
                Slot::Old(at) => {
                    let item = &collection.items[*at];
                    let mut editor = Editor::new(source, self.block);
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

    /// Inserts items after the one that ends at `end`, and after the comment beside it.
    fn insert_in_flow(&mut self, end: usize, text: &str, between: &str) {
        let source = self.source;
        let line_end = source.line_end(end);
        let (code, comment) = source.text[end..line_end].split_once('#').unwrap_or_default();
        // A comment runs to the end of its line.
        let between_lines = match between.trim_start_matches(',') {
            lines if lines.contains('\n') => lines.to_owned(),
            _ => format!("{}{}", source.eol, source.line_indent(end)),
        };
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
                let (start, end) = (items[at].start, items[next - 1].end());
                match (items.get(next), at.checked_sub(1)) {
                    (Some(next), _) => self.delete_before_next(start..end, next.start),
                    (None, Some(before)) => self.delete_last(items[before].end(), start..end),
                    (None, None) => self.replace(start..end, String::new()),
                }
            }
            at = next + 1;
        }
    }

    /// Deletes items with the comma after them. The comments behind the comma stay.
    fn delete_before_next(&mut self, items: Range<usize>, next: usize) {
        let source = self.source;
        let comma = source.skip_trivia(items.end);
        let is_commented = source.text[items.end..next].contains('#');
        let end = if is_commented && comma < next { comma + 1 } else { next };
        self.replace(items.start..end, String::new());
    }

    /// Deletes the last items, which follow an item that ends at `before`. The comments between
    /// stay, and so does the comma before them if there is one after the last item.
    fn delete_last(&mut self, before: usize, items: Range<usize>) {
        let source = self.source;
        let between = &source.text[before..items.start];
        if !between.contains('#') {
            return self.replace(before..items.end, String::new());
        }
        let after = source.skip_trivia(items.end);
        let is_followed = source.byte(after) == Some(b',') && after == items.end;
        let comma = source.skip_trivia(before);
        if !is_followed && comma < items.start {
            self.replace(comma..comma + 1, String::new());
        }
        let end = if is_followed { after + 1 } else { items.end };
        let is_last_in_line = source.text[end..source.line_end(end)].trim().is_empty();
        // What follows in the line must not become part of the comment.
        let start = if is_last_in_line { before + between.trim_end().len() } else { items.start };
        self.replace(start..end, String::new());
    }

    /// Replaces the value of an item.
    pub(super) fn renew_in_flow(&mut self, item: &Item, value: &Value, layout: &Layout) {
        self.certain = false;
        let (start, end) = (item.value.start, item.value.end);
        let space = if start == end && item.after == Some(start) { " " } else { "" };
        let text = format!("{space}{}", layout.value(value, self.block.spellings, self.source.eol));
        self.replace(start..end, text);
    }
}
