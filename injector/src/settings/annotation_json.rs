//! Values of annotations that are JSON objects.

use kube_access::names;
use serde_json::{Map, Value};

use super::proxy_config_rules;
use crate::go_types;
use crate::overlay::fit::{self, Place};

/// What of a value is wrong.
pub(super) enum Fault {
    Whole,
    Item(String),
    /// In words of its own.
    Because(String),
}

/// The volumes or mounts of an annotation: a list of them, or an object of them by name. Each has a
/// name, its own or else its key or index, and its fields have their names in Kubernetes' API.
///
/// `None` where the text is neither; `null` is an empty list.
pub(crate) fn named_objects(place: Place, value: &str) -> Option<Vec<Value>> {
    Some(keyed_objects(place, value)?.into_iter().map(|(_, object)| object).collect())
}

/// The same, each with its path in the annotation.
fn keyed_objects(place: Place, value: &str) -> Option<Vec<(String, Value)>> {
    let named = |path: String, name: String, mut object: Value| {
        fit::spell(place, &mut object);
        if let Some(object) = object.as_object_mut().filter(|object| !object.is_empty()) {
            object.entry("name").or_insert(name.into());
        }
        (path, object)
    };
    Some(match serde_json::from_str(value).ok()? {
        Value::Null => Vec::new(),
        Value::Object(given) => {
            given.into_iter().map(|(key, object)| named(key.clone(), key, object)).collect()
        }
        Value::Array(given) => {
            let given = given.into_iter().enumerate();
            given.map(|(at, object)| named(format!("[{at}]"), at.to_string(), object)).collect()
        }
        _ => return None,
    })
}

/// Volumes.
pub(super) fn volumes(value: &str) -> Option<Fault> {
    objects(Place::Volume, value, |_| true).or_else(|| {
        keyed_objects(Place::Volume, value)?.iter().find_map(|(path, volume)| {
            let sources = volume.as_object()?.iter().filter(|(field, source)| {
                *field != "name" && !source.is_null() && fit::is_field(Place::Volume, field)
            });
            let sources: Vec<_> = sources.map(|(field, _)| field.as_str()).collect();
            (sources.len() > 1).then(|| {
                Fault::Because(format!("{path} has several sources: {}", sources.join(", ")))
            })
        })
    })
}

/// Mounts, each of the volume that it names.
pub(super) fn mounts(value: &str) -> Option<Fault> {
    objects(Place::VolumeMount, value, |mount| {
        mount["mountPath"].as_str().is_some_and(|path| !path.is_empty())
    })
}

/// Objects with names as Kubernetes takes them for volumes, of the types that it has for them.
fn objects(place: Place, value: &str, good: impl Fn(&Value) -> bool) -> Option<Fault> {
    let Some(given) = keyed_objects(place, value) else {
        return Some(Fault::Whole);
    };
    given.iter().find_map(|(path, object)| {
        if let Some(directive) = directive(object) {
            let problem = format!("{path} has {directive}, which would tell the merge what to do");
            return Some(Fault::Because(problem));
        }
        if let Some(misfit) = fit::in_json(place, object, path) {
            return Some(Fault::Because(misfit));
        }
        let named = object["name"].as_str().is_some_and(|name| names::label(name).is_ok());
        (!named || !good(object)).then(|| Fault::Item(format!("{path}: {object}")))
    })
}

/// A key that a strategic merge obeys, however deep it stands.
fn directive(value: &Value) -> Option<&str> {
    match value {
        Value::Object(members) => {
            let own = members.keys().find(|key| is_directive(key)).map(String::as_str);
            own.or_else(|| members.values().find_map(directive))
        }
        Value::Array(items) => items.iter().find_map(directive),
        _ => None,
    }
}

fn is_directive(key: &str) -> bool {
    let list = ["$setElementOrder/", "$deleteFromPrimitiveList/"];
    ["$patch", "$retainKeys"].contains(&key) || list.iter().any(|list| key.starts_with(list))
}

/// Values of environment variables by name.
pub(super) fn environment(value: &str) -> bool {
    let given = serde_json::from_str::<Map<String, Value>>(value);
    given.is_ok_and(|given| given.keys().all(|name| proxy_config_rules::is_variable(name)))
}

/// Containers and init containers.
pub(super) fn overrides(value: &str) -> Option<Fault> {
    let Ok(given) = serde_json::from_str::<Option<Map<String, Value>>>(value) else {
        return Some(Fault::Whole);
    };
    let mut given = given.unwrap_or_default();
    go_types::spell_members(&OVERRIDES, &mut given);
    OVERRIDES.iter().find_map(|list| match given.get(*list) {
        None | Some(Value::Null) => None,
        Some(Value::Array(containers)) if containers.iter().all(Value::is_object) => {
            let containers = containers.iter().enumerate();
            let mut misfits = containers.filter_map(|(place, container)| {
                let name = container["name"].as_str().unwrap_or_default();
                fit::in_json(Place::Container, container, &format!("{list}[{place}] ({name})"))
            });
            misfits.next().map(Fault::Because)
        }
        Some(_) => Some(Fault::Whole),
    })
}

/// The fields of the annotation `proxy.istio.io/overrides`.
pub(crate) const OVERRIDES: [&str; 2] = ["containers", "initContainers"];
