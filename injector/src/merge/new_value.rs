//! A value of an overlay that has nothing to merge with.

use serde_json::Value;

use super::{DIRECTIVES, PATCH, RETAIN_KEYS};

/// The value as it comes into an object that has nothing in its place: without nulls, and without
/// what carries a directive, which has nothing to act on. `None` where nothing is left of it.
pub(super) fn added(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(members) if members.contains_key(PATCH) => None,
        // To the API server an empty list is none.
        Value::Array(items) if items.is_empty() => None,
        Value::Object(members) => {
            let members = members.into_iter().filter(|(key, _)| key != RETAIN_KEYS);
            Some(members.filter_map(|(key, value)| Some((key, added(value)?))).collect())
        }
        Value::Array(items) => Some(items.into_iter().filter_map(added).collect()),
        scalar => Some(scalar),
    }
}

/// The value as a new item of a list, or in place of another one: without nulls and without the
/// directives themselves, but with what stands beside them.
pub fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .filter(|(key, value)| !value.is_null() && !DIRECTIVES.contains(&key.as_str()))
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(
            items.into_iter().filter(|item| !is_directive(item)).map(without_nulls).collect(),
        ),
        scalar => scalar,
    }
}

/// Whether an item of a list is a directive and nothing else.
fn is_directive(item: &Value) -> bool {
    item.as_object().is_some_and(|item| item.len() == 1 && item.contains_key(PATCH))
}
