//! Directives of an overlay without a counterpart in the pod.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{DIRECTIVES, PATCH, key_of};

/// Resolves an overlay's directives that have no counterpart in the pod: `replace` becomes a plain
/// new value, and `delete` is dropped.
///
/// Kubernetes' merge drops a `replace` together with its value, and keeps a `delete` in a new item
/// of a list. On reinjection the pod would have a counterpart, from the merge or from the API
/// server, and the directive would act on it.
pub fn settle(overlay: &mut Value, pod: &Value) {
    if has_directives(overlay) {
        settle_over(overlay, pod, "");
    }
}

fn has_directives(value: &Value) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(key, value)| DIRECTIVES.contains(&key.as_str()) || has_directives(value)),
        Value::Array(items) => items.iter().any(has_directives),
        _ => false,
    }
}

fn settle_over(overlay: &mut Value, present: &Value, field: &str) {
    match (overlay, present) {
        (Value::Object(members), Value::Object(present)) if !members.contains_key(PATCH) => {
            members.retain(|key, value| match present.get(key) {
                Some(present) => {
                    settle_over(value, present, key);
                    true
                }
                None => DIRECTIVES.contains(&key.as_str()) || stands_alone(value, key),
            });
        }
        (Value::Array(items), Value::Array(present)) => {
            let Some(key) = key_of(field) else { return };
            let named = present.iter().filter_map(|item| Some((item.get(key)?, item)));
            let named: HashMap<_, _> = named.collect();
            for item in items.iter_mut().filter(|item| item.get(PATCH).is_none()) {
                match item.get(key).and_then(|name| named.get(name)) {
                    Some(present) => settle_over(item, present, field),
                    None => {
                        stands_alone(item, field);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Removes the directives from a new value. Returns true if a value remains.
fn stands_alone(value: &mut Value, field: &str) -> bool {
    match value {
        Value::Object(members) => stand_alone(members),
        Value::Array(items) => {
            if key_of(field).is_some() {
                items.retain_mut(|item| {
                    // An item with a directive is dropped, `replace` included.
                    item.get(PATCH).is_none() && stands_alone(item, field)
                });
            }
            true
        }
        _ => true,
    }
}

fn stand_alone(members: &mut Map<String, Value>) -> bool {
    if members.get(PATCH).is_some_and(|directive| directive == "delete") {
        return false;
    }
    members.retain(|key, value| {
        // An unknown directive stays: the merge reports it as an error.
        let known = key != PATCH || value == "replace" || value == "merge";
        !(DIRECTIVES.contains(&key.as_str()) && known) && stands_alone(value, key)
    });
    true
}
