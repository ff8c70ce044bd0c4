//! Kubernetes' strategic merge on JSON values.
//!
//! The rules are those of `k8s.io/apimachinery/pkg/util/strategicpatch` with parallel lists merged
//! and unmatched nulls ignored, as Istio applies an overlay to a pod. Fields that no schema knows
//! are kept as they are.

mod added_value;
mod atomic_list;
mod directives;
mod keyed_list;
mod one_of;

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use self::added_value::added;
pub(crate) use self::added_value::is_omitted;
pub use self::added_value::without_nulls_and_directives;
pub use self::directives::settle;
use crate::json::change::Change;
use crate::kubernetes::quantity;

/// Merges an overlay onto a pod and returns the changes.
///
/// An error leaves the pod partly merged. Its message names the field.
pub fn merge(pod: &mut Value, overlay: Value) -> Result<Change, MergeError> {
    merge_value(pod, overlay, "")
}

/// Merges items over one list of a pod (`containers`, `volumes`, …).
pub fn merge_list(field: &str, list: &mut Value, items: Vec<Value>) -> Result<Change, MergeError> {
    merge_value(list, Value::Array(items), field)
}

/// An invalid overlay.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MergeError {
    /// An item of a keyed list has no merge key.
    #[error("{field}: an item has no {key:?}, by which the list is merged")]
    NoMergeKey {
        /// The list's name.
        field: String,
        /// The merge key.
        key: &'static str,
    },
    /// `$patch` has a value other than `replace`, `delete` or `merge`.
    #[error("{field}: {directive} is not a value of $patch; it is replace or delete")]
    Directive {
        /// The field with the directive.
        field: String,
        /// The invalid value.
        directive: String,
    },
    /// `$retainKeys` does not name a key that the overlay sets.
    #[error("{field}: $retainKeys does not name {key:?}, which the overlay sets")]
    RetainKeys {
        /// The field with the directive.
        field: String,
        /// The key that is not named.
        key: String,
    },
}

/// Merge strategy of a list; all other lists are replaced.
enum Strategy {
    /// Merge by the value of a key of the items.
    Keyed(&'static str),
    /// Union of scalars.
    Set,
    /// Replacement.
    Replace,
}

/// Returns the patch strategy of the Go type's field with this name. No field name of a pod has
/// two.
fn strategy(field: &str) -> Strategy {
    match field {
        "containers"
        | "env"
        | "ephemeralContainers"
        | "imagePullSecrets"
        | "initContainers"
        | "resourceClaims"
        | "schedulingGates"
        | "volumes" => Strategy::Keyed("name"),
        "ports" => Strategy::Keyed("containerPort"),
        "volumeMounts" => Strategy::Keyed("mountPath"),
        "volumeDevices" => Strategy::Keyed("devicePath"),
        "hostAliases" => Strategy::Keyed("ip"),
        "topologySpreadConstraints" => Strategy::Keyed("topologyKey"),
        "ownerReferences" => Strategy::Keyed("uid"),
        "finalizers" => Strategy::Set,
        _ => Strategy::Replace,
    }
}

/// Returns the merge key of a list of a pod; `None` if it is not a keyed list.
pub fn key_of(field: &str) -> Option<&'static str> {
    match strategy(field) {
        Strategy::Keyed(key) => Some(key),
        Strategy::Set | Strategy::Replace => None,
    }
}

/// True if a list is Kubernetes' keyed list of this name. An unknown field may hold another list of
/// that name, whose items have no such key.
fn is_keyed(list: &[Value], key: &str) -> bool {
    let may_be = |item: &Value| {
        item.as_object().is_some_and(|item| item.is_empty() || item.contains_key(key))
    };
    list.is_empty() || list.iter().any(may_be)
}

fn merge_value(original: &mut Value, patch: Value, field: &str) -> Result<Change, MergeError> {
    match (original, patch) {
        (Value::Object(original), Value::Object(patch)) => merge_object(original, patch, field),
        (Value::Array(original), Value::Array(patch)) => match strategy(field) {
            // Items of the original without the key stay: the API server names them.
            Strategy::Keyed(key) if is_keyed(original, key) || is_keyed(&patch, key) => {
                keyed_list::merge(original, patch, field, key)
            }
            Strategy::Set => Ok(atomic_list::unite(original, patch)),
            Strategy::Keyed(_) | Strategy::Replace => Ok(atomic_list::replace(original, patch)),
        },
        (original, patch) => {
            let patch = without_nulls_and_directives(patch);
            Ok(if *original == patch {
                Change::Kept
            } else {
                Change::Set(Some(std::mem::replace(original, patch)))
            })
        }
    }
}

fn merge_object(
    original: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
    field: &str,
) -> Result<Change, MergeError> {
    match directive(&mut patch, field)? {
        Some(Directive::Replace) => {
            let Value::Object(patch) = without_nulls_and_directives(Value::Object(patch)) else {
                return Ok(Change::Kept);
            };
            let before = std::mem::replace(original, patch);
            return Ok(Change::Set(Some(Value::Object(before))));
        }
        Some(Directive::Delete) => {
            return Ok(Change::Set(Some(Value::Object(std::mem::take(original)))));
        }
        None => {}
    }
    let mut changes = retain_keys(original, &mut patch, field)?;
    one_of::choose(original, &patch, field, &mut changes);
    for (key, value) in patch {
        let change = if value.is_null() {
            if original.get(&key).is_some_and(|present| is_omitted(field, &key, present)) {
                continue;
            }
            match original.remove(&key) {
                Some(before) => Change::Removed(before),
                None => continue,
            }
        } else if let Some(present) = original.get_mut(&key) {
            if quantity::is_one(field, &key) && quantity::same(present, &value) {
                continue;
            }
            merge_value(present, value, &key)?
        } else if is_omitted(field, &key, &value) {
            continue;
        } else if let Some(value) = added(value) {
            original.insert(key.clone(), value);
            Change::Set(None)
        } else {
            continue;
        };
        if change != Change::Kept {
            changes.insert(key, change);
        }
    }
    Ok(if changes.is_empty() { Change::Kept } else { Change::Object(changes) })
}

enum Directive {
    Delete,
    Replace,
}

fn directive(patch: &mut Map<String, Value>, field: &str) -> Result<Option<Directive>, MergeError> {
    match patch.remove(PATCH) {
        None => Ok(None),
        Some(Value::String(word)) if word == "replace" => Ok(Some(Directive::Replace)),
        Some(Value::String(word)) if word == "delete" => Ok(Some(Directive::Delete)),
        Some(Value::String(word)) if word == "merge" => Ok(None),
        Some(other) => {
            Err(MergeError::Directive { field: field.to_owned(), directive: other.to_string() })
        }
    }
}

/// Applies `$retainKeys`: drops the members that it does not name. It must name those that the
/// overlay sets.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    field: &str,
) -> Result<BTreeMap<String, Change>, MergeError> {
    let mut changes = BTreeMap::new();
    let Some(Value::Array(names)) = patch.remove(RETAIN_KEYS) else {
        return Ok(changes);
    };
    let names: HashSet<&str> = names.iter().filter_map(Value::as_str).collect();
    if let Some(key) = patch.keys().find(|key| !names.contains(key.as_str())) {
        return Err(MergeError::RetainKeys { field: field.to_owned(), key: key.clone() });
    }
    original.retain(|key, value| {
        let retained = names.contains(key.as_str());
        if !retained {
            changes.insert(key.clone(), Change::Removed(std::mem::take(value)));
        }
        retained
    });
    Ok(changes)
}

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DIRECTIVES: [&str; 2] = [PATCH, RETAIN_KEYS];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(mut original: Value, overlay: Value) -> Value {
        let before = original.clone();
        let change = merge(&mut original, overlay).unwrap();
        let mut patched = before.clone();
        let patch = crate::json::patch::write(&original, &change).owned();
        json_patch::patch(&mut patched, &patch).unwrap();
        assert_eq!(patched, original, "the patch gives the merge");
        original
    }

    #[test]
    fn keyed_lists_merge_and_new_items_come_first() {
        let result = merged(
            json!({"volumes": [{"name": "a"}, {"name": "b", "emptyDir": {}}, {"name": "c"}]}),
            json!({"volumes": [{"name": "x"}, {"name": "b", "configMap": {"name": "m"}, "emptyDir": null}, {"name": "y"}]}),
        );
        assert_eq!(
            result,
            json!({"volumes": [
                {"name": "x"}, {"name": "a"}, {"name": "b", "configMap": {"name": "m"}},
                {"name": "y"}, {"name": "c"},
            ]})
        );
    }

    #[test]
    fn lists_without_strategy_are_replaced() {
        let result = merged(
            json!({"containers": [{"name": "c", "args": ["a", "b"], "future": 1}]}),
            json!({"containers": [{"name": "c", "args": ["x"]}]}),
        );
        assert_eq!(result, json!({"containers": [{"name": "c", "args": ["x"], "future": 1}]}));
    }

    #[test]
    fn merge_directives_are_applied() {
        let labels = json!({"labels": {"a": "1", "b": "2"}});
        assert_eq!(
            merged(labels.clone(), json!({"labels": {"$patch": "replace", "c": "3"}})),
            json!({"labels": {"c": "3"}})
        );
        assert_eq!(
            merged(labels.clone(), json!({"labels": {"$patch": "delete"}})),
            json!({"labels": {}})
        );
        assert_eq!(
            merged(labels.clone(), json!({"labels": {"$retainKeys": ["a", "c"], "c": "3"}})),
            json!({"labels": {"a": "1", "c": "3"}})
        );
        let env = json!({"env": [{"name": "a"}, {"name": "b"}]});
        assert_eq!(
            merged(env.clone(), json!({"env": [{"name": "a", "$patch": "delete"}]})),
            json!({"env": [{"name": "b"}]})
        );
        assert_eq!(
            merged(env.clone(), json!({"env": [{"$patch": "replace"}, {"name": "c"}]})),
            json!({"env": [{"name": "c"}]})
        );
        assert_eq!(
            merge(&mut env.clone(), json!({"env": [{"value": "v"}]})).unwrap_err().to_string(),
            "env: an item has no \"name\", by which the list is merged"
        );
        assert!(merge(&mut labels.clone(), json!({"labels": {"$patch": "drop"}})).is_err());
    }

    #[test]
    fn finalizers_are_a_set_and_null_removes() {
        assert_eq!(
            merged(
                json!({"finalizers": ["a"], "name": "n"}),
                json!({"finalizers": ["b", "a"], "name": null, "absent": null}),
            ),
            json!({"finalizers": ["a", "b"]})
        );
    }

    #[test]
    fn added_value_contains_no_nulls() {
        assert_eq!(
            merged(json!({}), json!({"spec": {"volumes": [{"name": "v", "emptyDir": null}]}})),
            json!({"spec": {"volumes": [{"name": "v"}]}})
        );
    }

    #[test]
    fn directive_without_a_target_adds_nothing() {
        let replace = || json!({"$patch": "replace", "a": 1});
        assert_eq!(merged(json!({}), json!({"labels": replace()})), json!({}));
        assert_eq!(
            merged(
                json!({}),
                json!({"spec": {"x": replace(), "y": {"$retainKeys": ["b"], "b": 2}}})
            ),
            json!({"spec": {"y": {"b": 2}}})
        );
        // A new item of a list is added without its directives.
        assert_eq!(
            merged(
                json!({"containers": []}),
                json!({"containers": [{"name": "c", "x": replace()}]})
            ),
            json!({"containers": [{"name": "c", "x": {"a": 1}}]})
        );
        assert_eq!(
            merged(
                json!({"containers": []}),
                json!({"containers": [{"name": "c", "env": [{"name": "e", "$patch": "delete"}, {"$patch": "replace"}]}]})
            ),
            json!({"containers": [{"name": "c", "env": [{"name": "e"}]}]})
        );
    }

    #[test]
    fn equal_quantities_make_no_change() {
        let mut pod = json!({"limits": {"cpu": "2", "memory": "1Gi", "x": "1"}});
        let overlay = json!({"limits": {"cpu": "2000m", "memory": "1024Mi", "x": "2"}});
        merge(&mut pod, overlay).unwrap();
        assert_eq!(pod, json!({"limits": {"cpu": "2", "memory": "1Gi", "x": "2"}}));
    }

    #[test]
    fn overlay_items_with_equal_keys_are_merged() {
        assert_eq!(
            merged(
                json!({"env": []}),
                json!({"env": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]})
            ),
            json!({"env": [{"name": "a", "value": "2"}]})
        );
        let twice = json!({"env": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]});
        assert_eq!(merged(twice.clone(), twice.clone()), twice);
    }
}
