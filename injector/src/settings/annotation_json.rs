//! Values of annotations that are JSON objects.

use serde_json::{Map, Value};
use webhook_certs::names;

use super::proxy_config_rules;

/// What of a value is wrong.
pub(super) enum Fault {
    Whole,
    Item(String),
}

/// Volumes by name.
pub(super) fn volumes(value: &str) -> Option<Fault> {
    named_objects(value, |volume| volume.keys().any(|key| key != "name"))
}

/// Mounts by the name of their volume.
pub(super) fn mounts(value: &str) -> Option<Fault> {
    named_objects(value, |mount| {
        let path = mount.get("mountPath").and_then(Value::as_str);
        path.is_some_and(|path| !path.is_empty())
    })
}

/// Objects by names as Kubernetes takes them for volumes; a name of its own stands over the key,
/// and `null` is no object at all.
fn named_objects(value: &str, good: impl Fn(&Map<String, Value>) -> bool) -> Option<Fault> {
    let Ok(given) = serde_json::from_str::<Option<Map<String, Value>>>(value) else {
        return Some(Fault::Whole);
    };
    let given = given.unwrap_or_default();
    let is_label = |name: &str| names::label(name).is_ok();
    let named = |key: &str, object: &Map<String, Value>| match object.get("name") {
        None => is_label(key),
        Some(name) => name.as_str().is_some_and(is_label),
    };
    let good = |key: &str, object: &Value| {
        object.as_object().is_some_and(|object| named(key, object) && good(object))
    };
    let wrong = given.iter().find(|(key, object)| !good(key, object));
    wrong.map(|(name, object)| Fault::Item(format!("{name}: {object}")))
}

/// Values of environment variables by name.
pub(super) fn environment(value: &str) -> bool {
    let given = serde_json::from_str::<Map<String, Value>>(value);
    given.is_ok_and(|given| given.keys().all(|name| proxy_config_rules::is_variable(name)))
}

/// Containers and init containers.
pub(super) fn overrides(value: &str) -> bool {
    let given = serde_json::from_str::<Option<Map<String, Value>>>(value);
    given.is_ok_and(|given| {
        let given = given.unwrap_or_default();
        ["containers", "initContainers"].iter().all(|list| match given.get(*list) {
            Some(Value::Array(containers)) => containers.iter().all(Value::is_object),
            None | Some(Value::Null) => true,
            Some(_) => false,
        })
    })
}
