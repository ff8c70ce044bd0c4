//! Tree of a document's nodes with their positions in the text.

use std::borrow::Borrow;
use std::iter::Peekable;

use documents::yaml::YamlError;
use granit_parser::{Event, Parser, ScalarStyle, StructureStyle};

use super::source::Source;

/// An event of the parser with the start and end offsets of its text.
pub(super) type Placed<'a> = (Event<'a>, usize, usize);

/// Parses a text into events, without comments.
pub(super) fn events<'a>(source: &Source<'a>) -> Result<Vec<Placed<'a>>, YamlError> {
    let mut events = Vec::with_capacity(source.text.len() / BYTES_AN_EVENT);
    for event in each_event(source) {
        events.push(event?);
    }
    Ok(events)
}

/// Returns the events one by one, without comments.
pub(super) fn each_event<'a>(
    source: &Source<'a>,
) -> impl Iterator<Item = Result<Placed<'a>, YamlError>> {
    let options = granit_parser::options! { emit_comments: false };
    Parser::new_from_str_with_options(source.text, options).map(|next| {
        let (event, span) = next.map_err(|error| YamlError {
            line: error.marker().line(),
            column: error.marker().col() + 1,
            problem: error.info().clone(),
        })?;
        let range = span.byte_range().unwrap_or_default();
        Ok((event, range.start, range.end))
    })
}

/// A node of a document.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The start offset, including anchor and tag.
    pub(super) start: usize,
    /// The end offset, without the comments and line breaks after it.
    pub(super) end: usize,
    /// The number of its anchor; 0 for none.
    pub(super) anchor: usize,
    /// True for a collection in block style. A comment at the end of such a collection belongs to
    /// it.
    pub(super) block: bool,
    /// The content of the node.
    pub(super) kind: NodeKind,
}

/// Content of a node.
#[derive(Clone, Debug)]
pub(super) enum NodeKind {
    /// `*name`, with the number of the anchor.
    Alias(usize),
    /// A mapping or a sequence.
    Collection(Collection),
    /// A node to be rewritten from its value.
    Fresh,
    /// A node that is parsed but never edited inside, such as the pair in `[a: b]`.
    Opaque,
    /// A scalar, with its text without quotes and escapes.
    Scalar(String),
}

/// A mapping or a sequence.
#[derive(Clone, Debug)]
pub(super) struct Collection {
    /// True for a mapping, false for a sequence.
    pub(super) map: bool,
    /// True if it is written with brackets.
    pub(super) flow: bool,
    /// Its items in the order of the text.
    pub(super) items: Vec<Item>,
    /// The items of the new text; at first those of the original text.
    pub(super) slots: Vec<Slot>,
    /// True if the collection or its contents change.
    pub(super) dirty: bool,
}

/// An entry of a mapping or an item of a sequence.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// The offset of its key, its `?`, or its dash. In a flow sequence, the offset of its value.
    pub(super) start: usize,
    /// The offset after the colon or the dash; `None` if there is neither.
    pub(super) after: Option<usize>,
    /// The key of an entry, if it is a scalar.
    pub(super) key: Option<String>,
    /// True if it is written as `? key`.
    pub(super) explicit: bool,
    /// The value of the item.
    pub(super) value: Node,
}

/// An item of a collection's new text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Slot {
    /// A new item, with its key in a mapping.
    New(Option<String>),
    /// The item with this index in the original text.
    Old(usize),
}

impl Node {
    /// Builds the tree of a text of one document from its events; `None` if it has no node.
    pub(super) fn build(
        source: &Source<'_>,
        events: &[Placed<'_>],
    ) -> Result<Option<Self>, YamlError> {
        let mut builder = Builder::new(source, events.iter());
        while let Some((event, start, end)) = builder.next() {
            if let Event::DocumentStart(explicit, _) = event {
                let from = if *explicit { *end } else { *start };
                return builder.node(from).map(|node| node.filter(|node| !node.is_nothing()));
            }
        }
        Ok(None)
    }

    /// Returns the item of a mapping in the text that has this key.
    pub(super) fn entry(&self, key: &str) -> Option<&Item> {
        match &self.kind {
            NodeKind::Collection(c) if c.map => {
                c.items.iter().find(|item| item.key.as_deref() == Some(key))
            }
            _ => None,
        }
    }

    /// Returns the item in the text that a path's token names.
    pub(super) fn item(&self, token: &str) -> Option<&Item> {
        match &self.kind {
            NodeKind::Collection(collection) if !collection.map => {
                collection.items.get(token.parse::<usize>().ok()?)
            }
            _ => self.entry(token),
        }
    }

    /// True for the empty scalar as which the parser reports a document with only comments.
    fn is_nothing(&self) -> bool {
        self.start == self.end && matches!(self.kind, NodeKind::Scalar(_))
    }
}

impl Item {
    /// Returns the end offset.
    pub(super) fn end(&self) -> usize {
        self.value.end.max(self.after.unwrap_or(self.start))
    }
}

/// Builder of nodes from events.
pub(super) struct Builder<'s, 'a, I: Iterator> {
    source: &'s Source<'a>,
    /// The remaining events.
    events: Peekable<I>,
    depth: usize,
}

impl<'s, 'a, I> Builder<'s, 'a, I>
where
    I: Iterator,
    I::Item: Borrow<Placed<'a>>,
{
    /// Returns a builder at the first of the events.
    pub(super) fn new(source: &'s Source<'a>, events: I) -> Self {
        Self { source, events: events.peekable(), depth: 0 }
    }

    /// Returns the next event.
    pub(super) fn next(&mut self) -> Option<I::Item> {
        self.events.next()
    }

    /// Returns the next event without consuming it.
    pub(super) fn peek(&mut self) -> Option<&Placed<'a>> {
        self.events.peek().map(Borrow::borrow)
    }

    /// Returns the next node, whose text is after `from`; `None` at the end of a collection.
    fn node(&mut self, from: usize) -> Result<Option<Node>, YamlError> {
        let Some(next) = self.next() else {
            return Ok(None);
        };
        let &(ref event, start, end) = next.borrow();
        let place = |anchor: usize, tagged: bool| {
            if anchor != 0 || tagged { self.source.skip_trivia(from) } else { start }
        };
        let node = match *event {
            Event::Alias(id) => {
                Node { start, end, anchor: 0, block: false, kind: NodeKind::Alias(id) }
            }
            Event::Scalar(ref text, style, anchor, ref tag) => {
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let first = place(anchor, tag.is_some() || block);
                let end = if block { self.source.block_scalar_end(first, end) } else { end };
                // The parser reports an empty scalar with a text, and with a position before the
                // colon.
                let empty = style == ScalarStyle::Plain && start == end;
                let text = if empty { String::new() } else { text.to_string() };
                let (first, end) =
                    if empty { (first.max(from), end.max(from)) } else { (first, end) };
                Node { start: first, end, anchor, block: false, kind: NodeKind::Scalar(text) }
            }
            Event::SequenceStart(style, anchor, ref tag) => {
                let at =
                    Opening { from, start, end, anchor, properties: anchor != 0 || tag.is_some() };
                self.nested(|this| this.sequence(style == StructureStyle::Flow, &at))?
            }
            Event::MappingStart(style, anchor, ref tag) => {
                let at =
                    Opening { from, start, end, anchor, properties: anchor != 0 || tag.is_some() };
                self.nested(|this| this.mapping(style == StructureStyle::Flow, &at))?
            }
            _ => return Ok(None),
        };
        Ok(Some(node))
    }

    fn sequence(&mut self, flow: bool, at: &Opening) -> Result<Node, YamlError> {
        let start = at.node_start(self.source, flow);
        let mut items = Vec::new();
        let mut position = if flow { at.end } else { at.content(self.source, start) };
        loop {
            if let Some(end) = self.closing() {
                let end = if flow { end } else { position };
                return Ok(Node::collection(start, end, at.anchor, false, flow, items));
            }
            let (first, after) = if flow {
                (self.source.skip_comma(position), None)
            } else {
                let dash = self.expect(b'-', position)?;
                (dash, Some(dash + 1))
            };
            let value = self.child(after.unwrap_or(first))?;
            position = value.end.max(after.unwrap_or(value.start));
            let start = if flow { value.start } else { first };
            items.push(Item { start, after, key: None, explicit: false, value });
        }
    }

    fn mapping(&mut self, flow: bool, at: &Opening) -> Result<Node, YamlError> {
        let braces = flow && self.source.byte(at.start) == Some(b'{');
        let start = at.node_start(self.source, braces);
        let mut items = Vec::new();
        let mut position = if braces { at.end } else { at.content(self.source, start) };
        loop {
            if let Some(end) = self.closing() {
                let end = if braces { end } else { position };
                let mut node = Node::collection(start, end, at.anchor, true, flow, items);
                if flow && !braces {
                    node.kind = NodeKind::Opaque;
                }
                return Ok(node);
            }
            let first = self.source.skip_comma(position);
            let explicit = self.source.is_question_mark(first);
            let key = self.child(if explicit { first + 1 } else { first })?;
            let colon = self.source.skip_trivia(key.end);
            let after = (self.source.byte(colon) == Some(b':')).then_some(colon + 1);
            if after.is_none() && !flow && !explicit {
                return Err(self.unsupported(key.end));
            }
            let value = self.child(after.unwrap_or(key.end))?;
            position = value.end.max(after.unwrap_or(key.end));
            items.push(Item {
                start: if explicit { first } else { key.start },
                after,
                key: match key.kind {
                    NodeKind::Scalar(text) => Some(text),
                    _ => None,
                },
                explicit,
                value,
            });
        }
    }

    /// Returns the next node, or an error at the end of a collection.
    pub(super) fn child(&mut self, from: usize) -> Result<Node, YamlError> {
        self.node(from)?.ok_or_else(|| self.unsupported(from))
    }

    /// Consumes the end of a collection. Returns the offset after it; `None` if the next event is
    /// another one.
    pub(super) fn closing(&mut self) -> Option<usize> {
        let &(Event::SequenceEnd | Event::MappingEnd, _, end) = self.peek()? else {
            return None;
        };
        self.next();
        Some(end)
    }

    pub(super) fn expect(&self, byte: u8, position: usize) -> Result<usize, YamlError> {
        let found = self.source.skip_trivia(position);
        if self.source.byte(found) == Some(byte) { Ok(found) } else { Err(self.unsupported(found)) }
    }

    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Node, YamlError>,
    ) -> Result<Node, YamlError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let place = self.peek().map_or(0, |(_, start, _)| *start);
            return Err(self.error(
                place,
                format!("nested more than {MAX_DEPTH} deep; hint: keep it in another file"),
            ));
        }
        let node = read(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn unsupported(&self, position: usize) -> YamlError {
        self.error(position, "a layout that cannot be edited in place".to_owned())
    }

    fn error(&self, position: usize, problem: String) -> YamlError {
        let (line, column) = self.source.place(position);
        YamlError { line, column, problem }
    }
}

impl Node {
    fn collection(
        start: usize,
        end: usize,
        anchor: usize,
        map: bool,
        flow: bool,
        items: Vec<Item>,
    ) -> Self {
        let slots = (0..items.len()).map(Slot::Old).collect();
        let collection = Collection { map, flow, items, slots, dirty: false };
        Self { start, end, anchor, block: !flow, kind: NodeKind::Collection(collection) }
    }
}

/// Start of a collection.
struct Opening {
    from: usize,
    start: usize,
    end: usize,
    anchor: usize,
    properties: bool,
}

impl Opening {
    /// Returns the start of the node. A block collection has no start mark: it starts with its
    /// first dash or key.
    fn node_start(&self, source: &Source<'_>, bracket: bool) -> usize {
        if bracket && !self.properties { self.start } else { source.skip_trivia(self.from) }
    }

    /// Returns the offset after anchor and tag.
    fn content(&self, source: &Source<'_>, start: usize) -> usize {
        if self.properties { source.skip_properties(start) } else { start }
    }
}

/// Estimate of bytes per event, lower than in most documents.
const BYTES_AN_EVENT: usize = 12;
/// Deepest nesting that is read: the recursion has to fit into the stack of a thread.
const MAX_DEPTH: usize = 128;
