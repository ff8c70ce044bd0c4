//! Values of annotations that are JSON objects.

use serde_json::{Map, Value};
use webhook_certs::names;

use super::proxy_config_rules;
use crate::overlay::fit::{self, Place};

/// What of a value is wrong.
pub(super) enum Fault {
    Whole,
    Item(String),
    /// In words of its own.
    Because(String),
}

/// Volumes by name.
pub(super) fn volumes(value: &str) -> Option<Fault> {
    named_objects(value, |volume| sources(volume).next().is_some(), Place::Volume).or_else(|| {
        let given = serde_json::from_str::<Map<String, Value>>(value).ok()?;
        given.iter().find_map(|(name, volume)| {
            let known = |source: &&str| fit::is_field(Place::Volume, source);
            let sources: Vec<_> = sources(volume.as_object()?).filter(known).collect();
            let several = sources.len() > 1;
            several.then(|| {
                Fault::Because(format!("{name} has several sources: {}", sources.join(", ")))
            })
        })
    })
}

/// Mounts by the name of their volume.
pub(super) fn mounts(value: &str) -> Option<Fault> {
    let has_path = |mount: &Map<String, Value>| {
        let path = mount.get("mountPath").and_then(Value::as_str);
        path.is_some_and(|path| !path.is_empty())
    };
    named_objects(value, has_path, Place::VolumeMount)
}

/// What a volume says beside its name.
fn sources(volume: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let said = volume.iter().filter(|(key, value)| *key != "name" && !value.is_null());
    said.map(|(key, _)| key.as_str())
}

/// Objects by names as Kubernetes takes them for volumes, of the types that it has for them; a name
/// of its own stands over the key, and `null` is no object at all.
fn named_objects(
    value: &str,
    good: impl Fn(&Map<String, Value>) -> bool,
    place: Place,
) -> Option<Fault> {
    let Ok(given) = serde_json::from_str::<Option<Map<String, Value>>>(value) else {
        return Some(Fault::Whole);
    };
    let given = given.unwrap_or_default();
    let is_label = |name: &str| names::label(name).is_ok();
    let named = |key: &str, object: &Map<String, Value>| match object.get("name") {
        None => is_label(key),
        Some(name) => name.as_str().is_some_and(is_label),
    };
    given.iter().find_map(|(name, object)| {
        if let Some(directive) = directive(object) {
            let problem = format!("{name} has {directive}, which would tell the merge what to do");
            return Some(Fault::Because(problem));
        }
        if let Some(misfit) = fit::in_json(place, object, name) {
            return Some(Fault::Because(misfit));
        }
        let good = object.as_object().is_some_and(|object| named(name, object) && good(object));
        (!good).then(|| Fault::Item(format!("{name}: {object}")))
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
    let given = given.unwrap_or_default();
    ["containers", "initContainers"].iter().find_map(|list| match given.get(*list) {
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
