//! Lists whose items are not merged.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::new_value::{added, without_nulls};
use crate::change::Change;

/// Adds the items that are not there yet.
pub(super) fn unite(original: &mut Vec<Value>, patch: Vec<Value>) -> Change {
    let before = original.len();
    let mut seen: HashSet<Value> = original.iter().cloned().collect();
    original.extend(patch.into_iter().filter(|item| seen.insert(item.clone())));
    let origins = (0..original.len()).map(|index| (index < before).then_some(index)).collect();
    Change::list(origins, BTreeMap::new(), BTreeMap::new())
}

/// Puts one list in the place of the other.
pub(super) fn replace(original: &mut Vec<Value>, patch: Vec<Value>) -> Change {
    let patch: Vec<_> = patch.into_iter().map(without_nulls).collect();
    let same = |patch: &[Value]| {
        original.len() == patch.len() && original.iter().zip(patch).all(|(a, b)| alike(a, b))
    };
    // It may have come into the pod as something new, without what says nothing there.
    let new = |patch| match added(Value::Array(patch)) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    if same(&patch) || same(&new(patch.clone())) {
        Change::Kept
    } else {
        Change::Set(Some(Value::Array(std::mem::replace(original, patch))))
    }
}

/// Whether two values are the same, but for the version that the API server adds to a `fieldRef`
/// that has none.
fn alike(present: &Value, wanted: &Value) -> bool {
    match (present, wanted) {
        (Value::Object(present), Value::Object(wanted)) => {
            let defaulted = |key: &str, value: &Value| {
                key == "apiVersion" && value == "v1" && wanted.contains_key("fieldPath")
            };
            wanted.keys().all(|key| present.contains_key(key))
                && present.iter().all(|(key, value)| match wanted.get(key) {
                    Some(wanted) => alike(value, wanted),
                    None => defaulted(key, value),
                })
        }
        (Value::Array(present), Value::Array(wanted)) => {
            present.len() == wanted.len() && present.iter().zip(wanted).all(|(a, b)| alike(a, b))
        }
        (present, wanted) => present == wanted,
    }
}
