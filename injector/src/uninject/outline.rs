//! Copy of an injected pod without the fields that uninjection neither reads nor changes.

use serde_json::{Map, Value};

use super::spec::{VOLUMES, has_another_source};
use crate::json::change::Change;
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, PROXY, annotation};
use crate::settings::annotations::key;

/// Returns the outline of a pod with this change by its injection. A field that is left out is
/// null. Injected volumes are left out, since uninjection removes them.
///
/// `None` if uninjection may read every field: a user-supplied container is recorded.
pub(super) fn outline(pod: &Value, change: &Change) -> Option<Value> {
    if annotation(pod, key::OVERRIDES).is_some() {
        return None;
    }
    let Change::Object(changes) = change else { return None };
    let change_of = |key: &str| changes.get(key).unwrap_or(&Change::Kept);
    Some(mapped(pod, |key, value| match key {
        "metadata" => with_fields(value, change_of(key), &["annotations", "labels"]),
        "spec" => spec(value, change_of(key)),
        _ => left_out(value, change_of(key)),
    }))
}

fn spec(spec: &Value, change: &Change) -> Value {
    let Change::Object(changes) = change else { return spec.clone() };
    let change_of = |key: &str| changes.get(key).unwrap_or(&Change::Kept);
    let items_of = |list: &str| items(&spec[list], change_of(list));
    let is_new = |(_, change): &(&Value, Option<&Change>)| change.is_none();
    let added: Vec<_> = items_of("volumes").filter(is_new).map(|(item, _)| name(item)).collect();
    let containers = [CONTAINERS, INIT_CONTAINERS].into_iter().flat_map(items_of);
    let mounts = containers.filter(|item| !is_new(item)).flat_map(|(container, _)| {
        ["volumeMounts", "volumeDevices"].map(|mounts| container[mounts].as_array())
    });
    let mounts = mounts.flatten().flatten().map(name);
    let mounted: Vec<_> = mounts.filter(|name| added.contains(name)).collect();
    let fields = if mounted.is_empty() { &FIELDS[2..] } else { &FIELDS };
    mapped(spec, |key, value| match key {
        CONTAINERS | INIT_CONTAINERS if value.is_array() => items_of(key)
            .map(|(container, change)| match change {
                Some(_) if name(container) == PROXY => container.clone(),
                Some(change) => with_fields(container, change, fields),
                None => with_fields(container, &Change::Kept, &["name"]),
            })
            .collect(),
        "volumes" if value.is_array() => items_of(key)
            .filter_map(|(volume, change)| match change {
                Some(Change::Kept) if !VOLUMES.contains(&name(volume)) => {
                    Some(with_fields(volume, &Change::Kept, &["name"]))
                }
                None if is_removed(volume) && !mounted.contains(&name(volume)) => None,
                _ => Some(volume.clone()),
            })
            .collect(),
        "dnsConfig" | "imagePullSecrets" | "securityContext" => value.clone(),
        _ => left_out(value, change_of(key)),
    })
}

/// Returns the items of a list with their changes; without one for those that injection added.
fn items<'v>(
    list: &'v Value,
    change: &'v Change,
) -> impl Iterator<Item = (&'v Value, Option<&'v Change>)> {
    let items = list.as_array().into_iter().flatten().enumerate();
    items.map(move |(index, item)| {
        let change = match change {
            Change::Set(None) => None,
            Change::List(change) => change.origin(index).map(|_| change.item(index)),
            change => Some(change),
        };
        (item, change)
    })
}

/// True if uninjection removes an injected volume.
fn is_removed(volume: &Value) -> bool {
    VOLUMES.contains(&name(volume)) && !has_another_source(volume, name(volume))
}

fn name(item: &Value) -> &str {
    item["name"].as_str().unwrap_or_default()
}

/// Copies an object with these fields, and the changed ones.
fn with_fields(object: &Value, change: &Change, fields: &[&str]) -> Value {
    let changes = match change {
        Change::Kept => None,
        Change::Object(changes) => Some(changes),
        _ => return object.clone(),
    };
    mapped(object, |key, value| {
        let is_changed = || changes.is_some_and(|changes| changes.contains_key(key));
        if fields.contains(&key) || is_changed() { value.clone() } else { Value::Null }
    })
}

fn left_out(value: &Value, change: &Change) -> Value {
    if *change == Change::Kept { Value::Null } else { value.clone() }
}

fn mapped(object: &Value, copy: impl Fn(&str, &Value) -> Value) -> Value {
    match object {
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| (key.clone(), copy(key, value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Fields of an application's container that uninjection reads. The first two matter for injected
/// volumes alone.
const FIELDS: [&str; 8] = [
    "volumeDevices",
    "volumeMounts",
    "lifecycle",
    "livenessProbe",
    "name",
    "ports",
    "readinessProbe",
    "startupProbe",
];
