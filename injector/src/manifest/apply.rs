//! Application of JSON patches to a tree: marks the changes and writes nothing.
//!
//! The tree holds no new values. The final value of the document is known, so a node that is
//! [`NodeKind::Fresh`] is written from the value at its place.

use std::collections::BTreeSet;

use json_patch::{Patch, PatchOperation};

use super::tree::{Collection, Node, NodeKind, Slot};

/// A patch, and the place of the node that it applies to.
pub(super) type PlacedPatch<'a> = (&'a [String], &'a Patch);

/// Applies patches.
///
/// A part from an alias or a merge key is expanded where it changes, and the anchor stays as it is.
/// Aliases of an anchored part that changes itself are expanded, so that only the patched place
/// gets another value.
pub(super) fn apply<'a>(root: &mut Node, patches: impl Iterator<Item = PlacedPatch<'a>>) {
    let mut lost = BTreeSet::new();
    for (place, patch) in patches {
        operate(root, place, patch, &mut lost);
    }
    expand_lost(root, &mut lost);
}

/// Marks the nodes at these places for complete rewriting.
pub(super) fn renew<'a>(root: &mut Node, places: impl Iterator<Item = &'a [String]>) {
    let mut lost = BTreeSet::new();
    for place in places {
        act(root, place, Act::Replace, &mut lost);
    }
    expand_lost(root, &mut lost);
}

fn operate(root: &mut Node, place: &[String], patch: &Patch, lost: &mut BTreeSet<usize>) {
    for operation in &patch.0 {
        let path = |pointer: &json_patch::jsonptr::Pointer| {
            let tokens = pointer.tokens().map(|token| token.decoded().into_owned());
            place.iter().cloned().chain(tokens).collect::<Vec<_>>()
        };
        match operation {
            PatchOperation::Add(add) => act(root, &path(&add.path), Act::Add, lost),
            PatchOperation::Copy(copy) => act(root, &path(&copy.path), Act::Add, lost),
            PatchOperation::Move(change) => {
                let (from, to) = (path(&change.from), path(&change.path));
                if !reorder(root, &from, &to, lost) {
                    act(root, &from, Act::Remove, lost);
                    act(root, &to, Act::Add, lost);
                }
            }
            PatchOperation::Remove(remove) => {
                act(root, &path(&remove.path), Act::Remove, lost);
            }
            PatchOperation::Replace(replace) => {
                act(root, &path(&replace.path), Act::Replace, lost);
            }
            PatchOperation::Test(_) => {}
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Act {
    Add,
    Remove,
    Replace,
}

fn act(node: &mut Node, path: &[String], what: Act, lost: &mut BTreeSet<usize>) {
    let Some((token, rest)) = path.split_first() else {
        return freshen(node, lost);
    };
    let anchor = node.anchor;
    let NodeKind::Collection(collection) = &mut node.kind else {
        return freshen(node, lost);
    };
    let inside = if collection.map {
        act_on_entry(collection, token, rest, what, lost)
    } else {
        act_on_item(collection, token, rest, what, lost)
    };
    if inside {
        collection.dirty = true;
        lost.extend((anchor != 0).then_some(anchor));
    } else {
        freshen(node, lost);
    }
}

/// Applies an operation to a mapping. Returns false if the mapping must be rewritten completely.
fn act_on_entry(
    collection: &mut Collection,
    key: &str,
    rest: &[String],
    what: Act,
    lost: &mut BTreeSet<usize>,
) -> bool {
    let position = collection.slots.iter().position(|slot| match slot {
        Slot::New(new) => new.as_deref() == Some(key),
        Slot::Old(at) => collection.items[*at].key.as_deref() == Some(key),
    });
    match position.map(|at| (at, collection.slots[at].clone())) {
        Some((position, Slot::New(_))) => {
            if rest.is_empty() && what == Act::Remove {
                collection.slots.remove(position);
            }
            true
        }
        Some((position, Slot::Old(at))) => {
            let value = &mut collection.items[at].value;
            if rest.is_empty() && what == Act::Remove {
                lose(value, lost);
                collection.slots.remove(position);
                return true;
            }
            act(value, rest, what, lost);
            collection.can_renew(at)
        }
        // The mapping's own entry takes precedence over one from its merge keys.
        None if rest.is_empty() && what == Act::Remove => false,
        None => {
            collection.slots.push(Slot::New(Some(key.to_owned())));
            true
        }
    }
}

/// Applies an operation to a sequence. Returns false if the sequence must be rewritten completely.
fn act_on_item(
    collection: &mut Collection,
    token: &str,
    rest: &[String],
    what: Act,
    lost: &mut BTreeSet<usize>,
) -> bool {
    let count = collection.slots.len();
    let Some(index) = index(token, count) else {
        return false;
    };
    match (rest.is_empty(), what) {
        (true, Act::Add) if index <= count => {
            collection.slots.insert(index, Slot::New(None));
            true
        }
        _ if index >= count => false,
        (true, Act::Remove) => {
            if let Slot::Old(at) = collection.slots.remove(index) {
                lose(&collection.items[at].value, lost);
            }
            true
        }
        _ => match collection.slots[index] {
            Slot::New(_) => true,
            Slot::Old(at) => {
                act(&mut collection.items[at].value, rest, what, lost);
                true
            }
        },
    }
}

/// Moves an item within its sequence and keeps its text. Returns false for any other move.
fn reorder(root: &mut Node, from: &[String], to: &[String], lost: &mut BTreeSet<usize>) -> bool {
    let (Some((last_from, parent)), Some((last_to, other))) = (from.split_last(), to.split_last())
    else {
        return false;
    };
    if parent != other || !is_sequence(root, parent) {
        return false;
    }
    let mut node = root;
    for token in parent {
        lost.extend((node.anchor != 0).then_some(node.anchor));
        let NodeKind::Collection(collection) = &mut node.kind else {
            return false;
        };
        collection.dirty = true;
        let Some(at) = collection.old_index(token) else {
            return false;
        };
        node = &mut collection.items[at].value;
    }
    lost.extend((node.anchor != 0).then_some(node.anchor));
    let NodeKind::Collection(collection) = &mut node.kind else {
        return false;
    };
    let count = collection.slots.len();
    let (Some(from), Some(to)) = (index(last_from, count), index(last_to, count)) else {
        return false;
    };
    if from >= count || to >= count {
        return false;
    }
    let slot = collection.slots.remove(from);
    if let Slot::Old(at) = slot {
        lose(&collection.items[at].value, lost);
        expand_aliases(&mut collection.items[at].value, None, lost);
    }
    collection.slots.insert(to, slot);
    collection.dirty = true;
    true
}

fn is_sequence(root: &Node, path: &[String]) -> bool {
    let mut node = root;
    for token in path {
        let NodeKind::Collection(collection) = &node.kind else {
            return false;
        };
        let Some(at) = collection.old_index(token) else {
            return false;
        };
        node = &collection.items[at].value;
    }
    matches!(&node.kind, NodeKind::Collection(collection) if !collection.map)
}

/// Expands the aliases of anchors that are removed or have another value now.
fn expand_lost(root: &mut Node, lost: &mut BTreeSet<usize>) {
    while !lost.is_empty() {
        let before = lost.len();
        let anchors = lost.clone();
        expand_aliases(root, Some(&anchors), lost);
        if lost.len() == before {
            return;
        }
    }
}

/// Marks the aliases of these anchors (of all, for `None`) for expansion. Returns true if there
/// were any.
fn expand_aliases(
    node: &mut Node,
    anchors: Option<&BTreeSet<usize>>,
    lost: &mut BTreeSet<usize>,
) -> bool {
    if is_alias(node, anchors) {
        node.kind = NodeKind::Fresh;
        return true;
    }
    let NodeKind::Collection(collection) = &mut node.kind else {
        return false;
    };
    let mut found = false;
    let mut keep = true;
    for position in 0..collection.slots.len() {
        let Slot::Old(at) = collection.slots[position] else {
            continue;
        };
        let item = &mut collection.items[at];
        let merge = collection.map && item.key.as_deref() == Some("<<");
        if merge && holds_alias(&item.value, anchors) {
            keep = false;
        } else if !merge && expand_aliases(&mut item.value, anchors, lost) {
            found = true;
            keep &= collection.can_renew(at);
        }
    }
    if !keep {
        freshen(node, lost);
        return true;
    }
    collection.dirty |= found;
    found
}

fn holds_alias(node: &Node, anchors: Option<&BTreeSet<usize>>) -> bool {
    match &node.kind {
        NodeKind::Collection(collection) => {
            collection.items.iter().any(|item| holds_alias(&item.value, anchors))
        }
        _ => is_alias(node, anchors),
    }
}

fn is_alias(node: &Node, anchors: Option<&BTreeSet<usize>>) -> bool {
    match node.kind {
        NodeKind::Alias(id) => anchors.is_none_or(|anchors| anchors.contains(&id)),
        _ => false,
    }
}

fn freshen(node: &mut Node, lost: &mut BTreeSet<usize>) {
    lose(node, lost);
    node.kind = NodeKind::Fresh;
}

fn lose(node: &Node, lost: &mut BTreeSet<usize>) {
    lost.extend((node.anchor != 0).then_some(node.anchor));
    if let NodeKind::Collection(collection) = &node.kind {
        for item in &collection.items {
            lose(&item.value, lost);
        }
    }
}

fn index(token: &str, count: usize) -> Option<usize> {
    if token == "-" { Some(count) } else { token.parse().ok() }
}

impl Collection {
    /// True if the value of an entry can be replaced in the text. It cannot after `? key`, nor if
    /// the entry has no colon.
    fn can_renew(&self, at: usize) -> bool {
        let item = &self.items[at];
        !matches!(item.value.kind, NodeKind::Fresh)
            || !self.map
            || !item.explicit && item.after.is_some() && item.key.as_deref() != Some("<<")
    }

    /// Returns the index in the original text of the item named by a path's token; `None` for a new
    /// item.
    fn old_index(&self, token: &str) -> Option<usize> {
        if self.map {
            return self.slots.iter().find_map(|slot| match slot {
                Slot::Old(at) if self.items[*at].key.as_deref() == Some(token) => Some(*at),
                _ => None,
            });
        }
        match self.slots.get(token.parse::<usize>().ok()?)? {
            Slot::New(_) => None,
            Slot::Old(at) => Some(*at),
        }
    }
}
