//! Values of annotations that are JSON objects.

use serde_json::{Map, Value};

use super::annotation_kind::Fault;
use super::proxy_config_rules;

/// Volumes by name.
pub(super) fn volumes(value: &str) -> Option<Fault> {
    named_objects(value, |volume| !volume.is_empty())
}

/// Mounts by the name of their volume.
pub(super) fn mounts(value: &str) -> Option<Fault> {
    named_objects(value, |mount| {
        let path = mount.get("mountPath").and_then(Value::as_str);
        path.is_some_and(|path| !path.is_empty())
    })
}

/// Objects by names as Kubernetes takes them for volumes; none says its own name a second time.
fn named_objects(value: &str, good: impl Fn(&Map<String, Value>) -> bool) -> Option<Fault> {
    let Ok(given) = serde_json::from_str::<Map<String, Value>>(value) else {
        return Some(Fault::Whole);
    };
    let good = |object: &Value| {
        object.as_object().is_some_and(|object| !object.contains_key("name") && good(object))
    };
    let wrong = given.iter().find(|(name, object)| !label(name) || !good(object));
    wrong.map(|(name, object)| Fault::Item(format!("{name}: {object}")))
}

/// A label as DNS has them (RFC 1123), in lower case.
fn label(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 63
        && name.bytes().all(|byte| plain(byte) || byte == b'-')
        && [name.bytes().next(), name.bytes().last()].iter().all(|end| end.is_some_and(plain))
}

/// Values of environment variables by name.
pub(super) fn environment(value: &str) -> bool {
    let given = serde_json::from_str::<Map<String, Value>>(value);
    given.is_ok_and(|given| given.keys().all(|name| proxy_config_rules::is_variable(name)))
}

/// Containers and init containers.
pub(super) fn overrides(value: &str) -> bool {
    let given = serde_json::from_str::<Map<String, Value>>(value);
    given.is_ok_and(|given| {
        ["containers", "initContainers"].iter().all(|list| match given.get(*list) {
            Some(Value::Array(containers)) => containers.iter().all(Value::is_object),
            other => other.is_none(),
        })
    })
}
