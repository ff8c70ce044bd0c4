//! Lists whose items are not merged.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::added_value::{added, without_nulls_and_directives};
use crate::json::change::Change;

/// Adds the items that are absent.
pub(super) fn unite(original: &mut Vec<Value>, patch: Vec<Value>) -> Change {
    let before = original.len();
    let mut seen: HashSet<Value> = original.iter().cloned().collect();
    original.extend(patch.into_iter().filter(|item| seen.insert(item.clone())));
    let origins = (0..original.len()).map(|index| (index < before).then_some(index)).collect();
    Change::list(origins, BTreeMap::new(), BTreeMap::new())
}

/// Replaces a list by another.
pub(super) fn replace(original: &mut Vec<Value>, patch: Vec<Value>) -> Change {
    let patch: Vec<_> = patch.into_iter().map(without_nulls_and_directives).collect();
    // A list that was new at the first injection is in the pod without its null and empty parts.
    let new = |patch| match added(Value::Array(patch)) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    if *original == patch || *original == new(patch.clone()) {
        Change::Kept
    } else {
        Change::Set(Some(Value::Array(std::mem::replace(original, patch))))
    }
}
