//! Splitting of a `List` into its items, which are edited one after the other.
//!
//! An injected pod takes a hundred times the memory of its text. Therefore a `List` of thousands is
//! never parsed as a whole. One pass over the parser's events finds the texts of its items, and
//! each text becomes a document of its own.

use std::ops::Range;

use documents::yaml;
use granit_parser::{Event, StructureStyle};
use serde_json::Value;

use super::document::{Document, Role};
use super::pod_template::LIST;
use super::render::{SeenStyle, Style};
use super::source::Source;
use super::tree::{self, Builder, Node, NodeKind, Placed};

impl Document<'_> {
    /// Splits the document into parts that can be edited one by one: the items of a `List` and the
    /// texts around them, or else the document itself. The texts of the parts, concatenated, are
    /// its text.
    pub fn parts(self) -> Vec<Self> {
        let source = Source::new(self.text);
        let Some(Items { ranges, style }) = Items::find(&source) else {
            return vec![self];
        };
        let mut parts = Vec::with_capacity(ranges.len() * 2 + 1);
        let (mut position, mut line) = (0, self.line);
        let mut push = |end: usize, role: Role| {
            let text = &self.text[position..end];
            if !text.is_empty() {
                parts.push(Self { text, number: self.number, line, role });
            }
            line += text.matches('\n').count();
            position = end;
        };
        for Range { start, end } in ranges {
            push(start, Role::BesideItems);
            push(end, Role::Item(style));
        }
        push(self.text.len(), Role::BesideItems);
        parts
    }
}

/// The items of a `List`, each of which has the same meaning on its own.
struct Items {
    /// The texts of the items. An item on lines of its own includes the start of its first line.
    ranges: Vec<Range<usize>>,
    style: Style,
}

impl Items {
    /// Finds the items. `None` for any other document, for one with anchors, tags and the like, and
    /// for an invalid one.
    fn find(source: &Source<'_>) -> Option<Self> {
        if !(source.text.contains(LIST) && source.text.contains(ITEMS)) {
            return None;
        }
        let events = tree::each_event(source).map_while(Result::ok).take_while(is_context_free);
        let mut builder = Builder::new(source, events);
        let (mut ranges, mut seen) = (Vec::new(), SeenStyle::default());
        let (Event::StreamStart, ..) = builder.next()? else { return None };
        let (Event::DocumentStart(explicit, _), start, end) = builder.next()? else { return None };
        let from = if explicit { end } else { start };
        let (Event::MappingStart(style, ..), _, end) = builder.next()? else { return None };
        let flow = style == StructureStyle::Flow;
        let mut position = if flow { end } else { from };
        while builder.closing().is_none() {
            let key = builder.child(source.skip_comma(position)).ok()?;
            let after = builder.expect(b':', key.end).ok()? + 1;
            let is_items = matches!(&key.kind, NodeKind::Scalar(text) if text == ITEMS);
            if is_items && let Some((Event::SequenceStart(..), ..)) = builder.peek() {
                position = read_items(source, &mut builder, &mut seen, (&key, after), &mut ranges)?;
            } else {
                let value = builder.child(after).ok()?;
                if !flow {
                    seen.look_at_entry(source, key.start, &value);
                }
                position = value.end.max(after);
            }
        }
        let (Event::DocumentEnd, ..) = builder.next()? else { return None };
        let (Event::StreamEnd, ..) = builder.next()? else { return None };
        let (first, last) = (ranges.first()?.start, ranges.last()?.end);
        is_list(&[&source.text[..first], &source.text[last..]].concat())
            .then(|| Self { ranges, style: seen.style() })
    }
}

/// Reads the items below a key, which is given with the offset after its colon. Returns the end
/// offset of the items.
fn read_items<'a, I: Iterator<Item = Placed<'a>>>(
    source: &Source<'_>,
    builder: &mut Builder<'_, 'a, I>,
    seen: &mut SeenStyle,
    (key, after): (&Node, usize),
    ranges: &mut Vec<Range<usize>>,
) -> Option<usize> {
    let (Event::SequenceStart(style, ..), _, end) = builder.next()? else { return None };
    if style == StructureStyle::Flow {
        let mut position = end;
        loop {
            if let Some(end) = builder.closing() {
                return Some(end);
            }
            let value = builder.child(source.skip_comma(position)).ok()?;
            position = value.end;
            let line = source.line_start(value.start);
            let indented = source.text[line..value.start].trim_start().is_empty();
            // The item's indentation would be lost.
            if !indented && source.text[value.start..value.end].contains('\n') {
                return None;
            }
            ranges.push(if indented { line } else { value.start }..value.end);
        }
    }
    let mut position = after;
    while builder.closing().is_none() {
        let dash = builder.expect(b'-', position).ok()?;
        if !source.first_in_line(dash) {
            return None;
        }
        seen.look_at_dash(source, key.start, dash);
        let value = builder.child(dash + 1).ok()?;
        seen.look(source, &value);
        position = value.end.max(dash + 1);
        // Includes the comments below the item, up to the line of the next token.
        let next = source.skip_trivia(position);
        let end = if next == source.text.len() { next } else { source.line_start(next) };
        if end < position {
            return None;
        }
        ranges.push(source.line_start(dash)..end);
    }
    Some(position)
}

/// True if an event has the same meaning without the text before it.
fn is_context_free((event, ..): &Placed<'_>) -> bool {
    matches!(
        event,
        Event::Scalar(_, _, 0, None)
            | Event::SequenceStart(_, 0, None)
            | Event::MappingStart(_, 0, None)
            | Event::DocumentStart(_, None)
            | Event::DocumentEnd
            | Event::MappingEnd
            | Event::SequenceEnd
            | Event::StreamEnd
            | Event::StreamStart
    )
}

/// True if a document without its items is a `List`.
fn is_list(rest: &str) -> bool {
    yaml::parse_file(rest).is_ok_and(|list| {
        let empty = match &list[ITEMS] {
            Value::Array(items) => items.is_empty(),
            items => items.is_null(),
        };
        empty && list["apiVersion"] == "v1" && list["kind"] == LIST
    })
}

const ITEMS: &str = "items";
