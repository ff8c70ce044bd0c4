//! Edits of block collections: whole lines are added and removed, with their comments.

use std::iter::once;
use std::ops::Range;

use documents::yaml::YamlError;
use serde_json::Value;

use super::{Around, Editor, kept, slot_value, unsupported};
use crate::manifest::render::{hanging, is_block};
use crate::manifest::source::Source;
use crate::manifest::tree::{Collection, Item, Slot};

impl Editor<'_> {
    /// Edits the items of a block collection. `floor` is the end of the text before it.
    pub(super) fn block(
        &mut self,
        collection: &Collection,
        value: &Value,
        floor: usize,
    ) -> Result<(), YamlError> {
        let source = self.source;
        let eol = source.eol;
        let kept = kept(&collection.slots);
        let place = BlockItems::new(source, collection, floor);
        let (mut before, mut after) = (Vec::new(), vec![Vec::new(); collection.items.len()]);
        let ordinary = |item: &Item| !item.explicit && item.after.is_some();
        self.certain &= collection.items.iter().all(ordinary);
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
                Slot::New(Some(key)) => self.block.entry(key, value)?,
                Slot::New(None) => format!("-{}", self.block.item_value(value)?),
                Slot::Old(at) => {
                    self.certain = false;
                    self.moved(collection, *at, value, &place)?
                }
            };
            let indent = " ".repeat(place.column);
            let text = match slot {
                Slot::New(_) => format!("{indent}{}", hanging(&text, place.column, eol)),
                Slot::Old(_) => text,
            };
            last_kept.map_or(&mut before, |at: usize| &mut after[at]).push(text);
        }
        self.delete_from_block(collection, &kept, &place);
        self.begin_block(collection, &kept, &place, &before);
        for (at, texts) in after.into_iter().enumerate() {
            for text in texts {
                self.insert(place.next(at), format!("{eol}{text}"));
            }
        }
        Ok(())
    }

    /// Returns the text of a moved item with the comments above it and all changes in it.
    fn moved(
        &self,
        collection: &Collection,
        at: usize,
        value: &Value,
        place: &BlockItems<'_>,
    ) -> Result<String, YamlError> {
        let mut editor = Editor::new(self.source, self.block);
        let item = &collection.items[at];
        editor.item(item, value, &Around::Block(place.column))?;
        if at == 0 && place.inline {
            let text = editor.excerpt(item.start..place.extent_end(at))?;
            return Ok(format!("{}{text}", " ".repeat(place.column)));
        }
        let lead = self.source.lead_start(item.start, place.floor(at));
        editor.excerpt(lead..place.extent_end(at))
    }

    /// Writes the new items before the first item that stays.
    fn begin_block(
        &mut self,
        collection: &Collection,
        kept: &[usize],
        place: &BlockItems<'_>,
        before: &[String],
    ) {
        let (source, items) = (self.source, &collection.items);
        let Some(&first) = kept.first() else { return };
        let before = before.join(source.eol);
        if !place.inline {
            if !before.is_empty() {
                let lead = source.lead_start(items[first].start, place.floor(first));
                self.insert(lead, format!("{before}{}", source.eol));
            }
            return;
        }
        // After a dash there is no whole line to delete or insert. The next item moves up, unless
        // there are comments above it.
        let before = before.get(place.column..).unwrap_or_default().to_owned();
        self.certain &= first == 0;
        let (start, end) = (items[0].start, items[first].start);
        let above = first.checked_sub(1).map(|above| source.line_end(items[above].end()));
        match above.filter(|&above| source.text[above..end].contains('#')) {
            Some(above) => self.replace(start..above, before),
            None if before.is_empty() => self.replace(start..end, before),
            None => {
                let indent = " ".repeat(place.column);
                self.replace(start..end, format!("{before}{}{indent}", source.eol));
            }
        }
    }

    fn delete_from_block(
        &mut self,
        collection: &Collection,
        kept: &[usize],
        place: &BlockItems<'_>,
    ) {
        let source = self.source;
        // `begin_block` handles items that begin after a dash.
        let first = if place.inline { kept.first().copied().unwrap_or_default() } else { 0 };
        for (at, item) in collection.items.iter().enumerate().skip(first) {
            if kept.binary_search(&at).is_ok() {
                continue;
            }
            let moves = collection.slots.contains(&Slot::Old(at));
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

    /// Replaces the value after a colon or a dash, and keeps the comments there.
    pub(super) fn renew_in_block(
        &mut self,
        item: &Item,
        value: &Value,
        column: usize,
    ) -> Result<(), YamlError> {
        let Some(after) = item.after else {
            return Err(unsupported());
        };
        let (source, block, node) = (self.source, self.block, &item.value);
        let eol = source.eol;
        let (beside, below) = if item.key.is_some() {
            (block.entry_value(value)?, block.below_key(value)?)
        } else {
            (block.item_value(value)?, block.below_dash(value)?)
        };
        let below = format!("{}{}", " ".repeat(column), hanging(&below, column, eol));
        let beside = hanging(&beside, column, eol);
        let line_end = source.line_end(node.end);
        self.certain &= !source.text[after..line_end].contains('#');
        if value.is_null() {
            let extent = source.extent_end(item.end(), column, false);
            self.replace(after..line_end, self.emptied(after..line_end, extent));
            return Ok(());
        }
        let is_bare = source.text[after..node.start].trim().is_empty();
        if is_bare
            && !node.block
            && is_block(value)
            && source.text[node.start..node.end].contains('#')
        {
            let comments = source.comments(once(node.start..line_end));
            let comments: Vec<_> = comments.map(|comment| &source.text[comment]).collect();
            if !comments.is_empty() {
                // Those between the brackets, too.
                let indent = below.len() - below.trim_start_matches(' ').len();
                let between = format!("{eol}{}", &below[..indent]);
                let text = format!(" {}{eol}{below}", comments.join(&between));
                self.replace(after..line_end, text);
                return Ok(());
            }
        }
        let end = if node.block { line_end } else { node.end };
        if source.text[after..node.start].contains('#') {
            // Comments above the value stay. A comment after the value gets a line of its own if the
            // new value has several lines.
            let start = source.line_start(node.start);
            let comment = source.text[end..line_end].trim_start();
            if comment.is_empty() || !below.contains('\n') {
                self.replace(start..end, below);
            } else {
                let indent = source.line_indent(start);
                self.replace(start..line_end, format!("{indent}{comment}{eol}{below}"));
            }
        } else if !source.text[end..line_end].contains('#') {
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

    /// Returns the text after a key or a dash without its value: the comments there. Without
    /// comments up to `extent`, it is `null`.
    fn emptied(&self, value: Range<usize>, extent: usize) -> String {
        let source = self.source;
        let comments: Vec<_> = source.comments(once(value.start..extent)).collect();
        if comments.is_empty() {
            return " null".to_owned();
        }
        let mut text = String::new();
        for comment in comments.into_iter().take_while(|comment| comment.start < value.end) {
            if source.line_start(comment.start) > value.start {
                text.push_str(source.eol);
                text.push_str(source.line_indent(comment.start));
            } else {
                let code = source.text[..comment.start].trim_end_matches([' ', '\t']).len();
                text.push_str(&source.text[code..comment.start]);
            }
            text.push_str(&source.text[comment]);
        }
        text
    }
}

/// Layout of the items of a block collection.
struct BlockItems<'a> {
    source: &'a Source<'a>,
    items: &'a [Item],
    floor: usize,
    column: usize,
    inline: bool,
}

impl<'a> BlockItems<'a> {
    fn new(source: &'a Source<'a>, collection: &'a Collection, floor: usize) -> Self {
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

    /// Returns the end of an item including its own comments.
    fn extent_end(&self, at: usize) -> usize {
        self.source.extent_end(self.items[at].end(), self.column, false)
    }

    /// Returns the position at which text is inserted after an item. Comments directly below the
    /// last entry of a mapping belong to that entry. Comments below a sequence do not: they may
    /// belong to the next key, which can start in the column of the sequence.
    fn next(&self, at: usize) -> usize {
        let last = at + 1 == self.items.len() && self.items[at].key.is_some();
        self.source.extent_end(self.items[at].end(), self.column, last)
    }
}
