//! Defaults that the API server writes into absent fields of a pod.
//!
//! The values are those of Kubernetes' `pkg/apis/core/v1/defaults.go` and of the admission plugins
//! that every API server runs.

mod table;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use self::table::{is_admissions, is_default, says_nothing};
use crate::json::change::{Change, ListChange};
use crate::kubernetes::merge::{is_omitted, key_of};
use crate::kubernetes::port_identity::PortIdentity;
use crate::kubernetes::quantity;

/// Restores the defaults that an injection would remove from a pod. Otherwise the API server would
/// write them again, and every reinjection of the pod would change it.
///
/// `change` is the record of the injection; restored fields are removed from it.
pub(crate) fn keep(pod: &mut Value, change: &mut Change) {
    keep_in(pod, change, ValueContext { field: "", limits: &Value::Null });
}

/// Position of a value in a pod.
#[derive(Clone, Copy)]
struct ValueContext<'a> {
    /// The field that holds the value; for an item of a list, the field that holds the list.
    field: &'a str,
    /// The limits beside the value, if it belongs to a container's resources.
    limits: &'a Value,
}

fn keep_in(value: &mut Value, change: &mut Change, place: ValueContext<'_>) {
    match change {
        Change::Kept | Change::Removed(_) | Change::Set(None) => {}
        Change::Set(Some(before)) => {
            put_back(value, before, place);
            if value == before {
                *change = Change::Kept;
            }
        }
        Change::Object(changes) => {
            let Value::Object(members) = value else { return };
            keep_in_members(members, changes, place);
            if changes.is_empty() {
                *change = Change::Kept;
            }
        }
        Change::List(list) => {
            let Value::Array(items) = value else { return };
            list.retain_items(|index, change| {
                if let Some(item) = items.get_mut(index) {
                    keep_in(item, change, place);
                }
                *change != Change::Kept
            });
            if *list == ListChange::default() || is_as_before(items, list, place) {
                *change = Change::Kept;
            }
        }
    }
}

/// True if items were removed from a list and added again at the same index. Restores the defaults
/// in these items.
fn is_as_before(items: &mut [Value], list: &ListChange, place: ValueContext<'_>) -> bool {
    let Some(origins) = list.origins().filter(|_| list.gone().next().is_some()) else {
        return false;
    };
    let mut before = items.to_vec();
    list.clone().undo(&mut before);
    let gone: Vec<_> = list.gone().map(|index| &before[index]).collect();
    let new = items.iter_mut().zip(origins).filter(|(_, origin)| origin.is_none());
    put_back_items(new.map(|(item, _)| item), &gone, place);
    *items == *before
}

fn keep_in_members(
    members: &mut Map<String, Value>,
    changes: &mut BTreeMap<String, Change>,
    place: ValueContext<'_>,
) {
    let limits = limits_of(members, place);
    changes.retain(|key, change| {
        let stays = match change {
            Change::Removed(before) | Change::Set(Some(before)) => match members.get(key) {
                Some(value) if !says_nothing(key, value) => {
                    quantity::is_one(place.field, key) && quantity::same(value, before)
                }
                _ => is_default(members, place, key, before),
            },
            _ => false,
        };
        match change {
            Change::Removed(before) | Change::Set(Some(before)) if stays => {
                members.insert(key.clone(), before.take());
                return false;
            }
            // The API server removes the value again.
            Change::Set(None)
                if members.get(key).is_some_and(|value| is_omitted(place.field, key, value)) =>
            {
                members.remove(key);
                return false;
            }
            _ => {}
        }
        if let Some(value) = members.get_mut(key) {
            keep_in(value, change, ValueContext { field: key, limits: &limits });
        }
        *change != Change::Kept
    });
}

/// Copies the defaults of a previous value into the value that replaced it.
fn put_back(value: &mut Value, before: &Value, place: ValueContext<'_>) {
    match (value, before) {
        (Value::Object(members), Value::Object(before)) => {
            members.retain(|key, value| {
                before.contains_key(key) || !is_omitted(place.field, key, value)
            });
            let limits = limits_of(members, place);
            for (key, before) in before {
                if members.get(key).is_none_or(|value| says_nothing(key, value)) {
                    if is_default(members, place, key, before) {
                        members.insert(key.clone(), before.clone());
                    }
                } else if let Some(value) = members.get_mut(key) {
                    if quantity::is_one(place.field, key) && quantity::same(value, before) {
                        *value = before.clone();
                    }
                    put_back(value, before, ValueContext { field: key, limits: &limits });
                }
            }
        }
        (Value::Array(items), Value::Array(before)) if place.field == "tolerations" => {
            let gone = before.iter().filter(|one| is_admissions(one) && !items.contains(one));
            let gone: Vec<_> = gone.cloned().collect();
            items.extend(gone);
        }
        (Value::Array(items), Value::Array(before)) => {
            put_back_items(items.iter_mut(), &before.iter().collect::<Vec<_>>(), place);
        }
        (Value::String(text), Value::String(before))
            if place.field == "value" && tell_the_same_ports(text, before) =>
        {
            text.clone_from(before);
        }
        _ => {}
    }
}

/// Copies the defaults of previous items into the items that replaced them. Items of a list with a
/// merge key are matched by that key, other items by index.
fn put_back_items<'a>(
    items: impl Iterator<Item = &'a mut Value>,
    before: &[&Value],
    place: ValueContext<'_>,
) {
    let mut items: Vec<_> = items.collect();
    let key = key_of(place.field);
    let same = |item: &Value, before: &Value| key.is_none_or(|key| item[key] == before[key]);
    if items.len() == before.len() && items.iter().zip(before).all(|(item, one)| same(item, one)) {
        for (item, before) in items.into_iter().zip(before) {
            put_back(item, before, place);
        }
    } else if let Some(key) = key {
        let named = before.iter().filter_map(|item| Some((item.get(key)?, *item)));
        let named: HashMap<_, _> = named.collect();
        for item in &mut items {
            if let Some(before) = item.get(key).and_then(|name| named.get(name)) {
                put_back(item, before, place);
            }
        }
    }
}

/// True if two values of environment variables list the same ports. Ignores the `protocol` that the
/// API server may have added to one of the two lists after it was written.
fn tell_the_same_ports(text: &str, before: &str) -> bool {
    let ports = PortIdentity::parse_list(text);
    ports.is_some() && ports == PortIdentity::parse_list(before)
}

fn limits_of(members: &Map<String, Value>, place: ValueContext<'_>) -> Value {
    let limits = members.get("limits").filter(|_| place.field == "resources");
    limits.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Merges an overlay into a pod; returns the pod and the paths of the patch, which must have
    /// the same effect.
    fn merged(pod: &Value, overlay: Value) -> (Value, Vec<String>) {
        let mut now = pod.clone();
        let mut change = crate::kubernetes::merge::merge(&mut now, overlay).unwrap();
        keep(&mut now, &mut change);
        let patch = crate::json::patch::write(&now, &change).owned();
        let mut patched = pod.clone();
        json_patch::patch(&mut patched, &patch).unwrap();
        assert_eq!(patched, now, "the patch gives the pod");
        (now, patch.iter().map(|operation| operation.path().to_string()).collect())
    }

    #[test]
    fn api_server_defaults_survive_removal_by_an_overlay() {
        let pod = json!({"spec": {
            "securityContext": {},
            "containers": [{
                "name": "app",
                "image": "app:1",
                "imagePullPolicy": "IfNotPresent",
                "readinessProbe": {
                    "httpGet": {"path": "/", "port": 1, "scheme": "HTTP"},
                    "periodSeconds": 10,
                },
            }],
        }});
        let nulls = json!({"spec": {
            "securityContext": null,
            "containers": [{
                "name": "app",
                "imagePullPolicy": null,
                "readinessProbe": {"httpGet": {"scheme": null}, "periodSeconds": null},
            }],
        }});
        assert_eq!(merged(&pod, nulls), (pod.clone(), vec![]));
        let anew = json!({"spec": {"containers": [{
            "name": "app",
            "readinessProbe": {"httpGet": {"$patch": "replace", "path": "/", "port": 1}},
        }]}});
        assert_eq!(merged(&pod, anew), (pod.clone(), vec![]));
    }

    #[test]
    fn replaced_lists_keep_api_server_defaults() {
        let items = |field: Value| json!({"items": [{"path": "labels", "fieldRef": field}]});
        let plain = items(json!({"fieldPath": "metadata.labels"}));
        let added = items(json!({"fieldPath": "metadata.labels", "apiVersion": "v1"}));
        assert_eq!(merged(&added, plain.clone()), (added.clone(), vec![]));
        let other = items(json!({"fieldPath": "other", "apiVersion": "v1"}));
        assert_eq!(merged(&other, plain).0, added);
    }

    #[test]
    fn values_other_than_defaults_are_removed() {
        let pod = json!({"spec": {
            "securityContext": {"runAsUser": 1},
            "containers": [{
                "name": "app",
                "image": "app:1",
                "imagePullPolicy": "Always",
                "ports": [{"containerPort": 1, "protocol": "UDP"}],
                "readinessProbe": {"httpGet": {"port": 1, "scheme": "HTTPS"}},
            }],
        }});
        let overlay = json!({"spec": {
            "securityContext": null,
            "containers": [{
                "name": "app",
                "imagePullPolicy": null,
                "ports": [{"containerPort": 1, "protocol": null}],
                "readinessProbe": {"httpGet": {"scheme": null}},
            }],
        }});
        let expected = json!({"spec": {"containers": [{
            "name": "app",
            "image": "app:1",
            "ports": [{"containerPort": 1}],
            "readinessProbe": {"httpGet": {"port": 1}},
        }]}});
        assert_eq!(merged(&pod, overlay).0, expected);
    }
}
