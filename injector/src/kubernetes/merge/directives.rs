//! Directives of an overlay that have nothing to act on.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{DIRECTIVES, PATCH, key_of};

/// Makes of an overlay's directives what they mean where the pod has nothing in their place: what
/// is to replace nothing is new, and what is to be deleted is not there.
///
/// Kubernetes' merge drops the first together with its directive, and keeps the second in a new
/// item of a list. The pod that comes of it has, or gets from the API server, something for them to
/// act on in the next injection.
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

/// Takes the directives out of a value that is new; whether there is any value then.
fn stands_alone(value: &mut Value, field: &str) -> bool {
    match value {
        Value::Object(members) => stand_alone(members),
        Value::Array(items) => {
            if key_of(field).is_some() {
                items.retain_mut(|item| {
                    // To replace nothing, an item says so and nothing else.
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
        // One that nobody knows is an error, which the merge tells.
        let known = key != PATCH || value == "replace" || value == "merge";
        !(DIRECTIVES.contains(&key.as_str()) && known) && stands_alone(value, key)
    });
    true
}
