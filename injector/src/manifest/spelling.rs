//! Spellings of scalars in the author's text, such as `ON` for true and `0644` for 420.
//!
//! A part behind an alias or a merge key is written from its value where it changes. A scalar in it
//! that does not change keeps the spelling that it has at the anchor.

use std::collections::{BTreeMap, HashMap};
use std::iter::once;
use std::ptr;

use documents::yaml;
use serde_json::Value;

use super::tree::{Node, NodeKind};

/// Spellings of the numbers, Booleans and nulls of a document's new value.
///
/// The keys are the addresses of the scalars, which are fixed while the document is written.
#[derive(Debug, Default)]
pub(super) struct Spellings<'t>(HashMap<*const Value, &'t str>);

impl<'t> Spellings<'t> {
    /// Collects the spellings of all scalars that are in the old and in the new value.
    pub(super) fn collect(root: &'t Node, old: &Value, new: &Value) -> Self {
        let mut anchors = Anchors::default();
        anchors.collect(root);
        let mut spellings = Self::default();
        spellings.look(&anchors, root, old, new);
        spellings
    }

    /// Returns the author's spelling of a scalar of the new value.
    pub(super) fn of(&self, value: &Value) -> Option<&'t str> {
        if self.0.is_empty() { None } else { self.0.get(&ptr::from_ref(value)).copied() }
    }

    fn look(&mut self, anchors: &Anchors<'t>, node: &'t Node, old: &Value, new: &Value) {
        let node = anchors.resolved(node);
        match (&node.kind, old, new) {
            (NodeKind::Collection(_), Value::Object(olds), Value::Object(news)) => {
                for (key, new) in news {
                    if let (Some(node), Some(old)) = (anchors.entry(node, key), olds.get(key)) {
                        self.look(anchors, node, old, new);
                    }
                }
            }
            (NodeKind::Collection(collection), Value::Array(olds), Value::Array(news)) => {
                for (index, new) in news.iter().enumerate() {
                    let counterpart = counterpart(olds, index, new);
                    let item =
                        counterpart.and_then(|at| collection.items.get(at).zip(olds.get(at)));
                    if let Some((item, old)) = item {
                        self.look(anchors, &item.value, old, new);
                    }
                }
            }
            (NodeKind::Scalar(text), Value::Bool(_) | Value::Null | Value::Number(_), _)
                if old == new && !text.is_empty() && yaml::parse_file(text).as_ref() == Ok(new) =>
            {
                self.0.insert(ptr::from_ref(new), text);
            }
            _ => {}
        }
    }
}

/// Returns the index of the old item that a new one comes from: an equal scalar, or a collection of
/// the same name.
fn counterpart(olds: &[Value], index: usize, new: &Value) -> Option<usize> {
    let is_same = |old: &Value| match new {
        Value::Array(_) | Value::Object(_) => old.get("name") == new.get("name"),
        _ => old == new,
    };
    once(index).chain(0..olds.len()).find(|&at| olds.get(at).is_some_and(is_same))
}

/// The anchored nodes of a document, by the numbers of their anchors.
#[derive(Debug, Default)]
struct Anchors<'t>(BTreeMap<usize, &'t Node>);

impl<'t> Anchors<'t> {
    fn collect(&mut self, node: &'t Node) {
        if node.anchor != 0 {
            self.0.insert(node.anchor, node);
        }
        if let NodeKind::Collection(collection) = &node.kind {
            for item in &collection.items {
                self.collect(&item.value);
            }
        }
    }

    /// Returns the node that an alias stands for; any other node itself.
    fn resolved(&self, node: &'t Node) -> &'t Node {
        match node.kind {
            NodeKind::Alias(id) => self.0.get(&id).copied().unwrap_or(node),
            _ => node,
        }
    }

    /// Returns the value of a mapping's key: of its own entry, or else of the first merge key that
    /// has it.
    fn entry(&self, node: &'t Node, key: &str) -> Option<&'t Node> {
        let node = self.resolved(node);
        let NodeKind::Collection(collection) = &node.kind else {
            return None;
        };
        if !collection.map {
            return collection.items.iter().find_map(|item| self.entry(&item.value, key));
        }
        let own = node.entry(key).map(|item| &item.value);
        own.or_else(|| self.entry(&node.entry("<<")?.value, key))
    }
}
