//! Equality of two objects, by the rules that come with the cases. The annotation that Istio does
//! not write, with values before injection, does not count.

use serde_json::Value;

/// Normalises an object, so that equal objects become identical.
pub(crate) fn normal(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.remove("status");
    }
    prune("", value).unwrap_or_default()
}

/// Returns all differences of two normalised values: the path and both values.
pub(crate) fn differences(ours: &Value, theirs: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect("", ours, theirs, &mut found);
    found
}

fn collect(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for key in keys {
                collect(&format!("{path}/{key}"), &ours[key], &theirs[key], found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                collect(&format!("{path}/{index}"), a, b, found);
            }
        }
        _ if ours == theirs => {}
        _ => found.push(format!("{path}:\n    {ours}\n    {theirs}")),
    }
}

/// Returns `None` for a value that counts as absent.
fn prune(key: &str, value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(members) if members.is_empty() && key != "emptyDir" => None,
        Value::Object(members) => {
            let quantities = ["limits", "requests"].contains(&key);
            let members: serde_json::Map<_, _> = members
                .into_iter()
                .filter(|(name, _)| name != "sidecar.outrigger.io/original")
                .filter_map(|(name, value)| {
                    let value = if quantities { quantity(&value) } else { prune(&name, value)? };
                    Some((name, value))
                })
                .collect();
            (!members.is_empty() || key == "emptyDir").then_some(Value::Object(members))
        }
        Value::Array(items) => {
            let mut items: Vec<_> = items.into_iter().filter_map(|item| prune("", item)).collect();
            if UNORDERED.contains(&key) {
                items.sort_by_key(ToString::to_string);
            }
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::String(text) => string(key, text),
        Value::Bool(false) if OMITTED.contains(&key) => None,
        Value::Number(number) if OMITTED.contains(&key) && number.as_u64() == Some(0) => None,
        scalar => Some(scalar),
    }
}

fn string(key: &str, text: String) -> Option<Value> {
    if key == "value" && text.is_empty() {
        return None;
    }
    if !text.starts_with(['{', '[']) {
        return Some(Value::String(text));
    }
    let Ok(mut json) = serde_json::from_str::<Value>(&text) else {
        return Some(Value::String(text));
    };
    if key == "sidecar.istio.io/status"
        && let Some(volumes) = json["volumes"].as_array_mut()
    {
        volumes.sort_by_key(ToString::to_string);
    }
    if key == "proxy.istio.io/overrides" {
        json = prune("", json).unwrap_or_default();
    }
    Some(json)
}

fn quantity(value: &Value) -> Value {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let suffixes = [
        ("Ki", 1024.0),
        ("Mi", 1024.0 * 1024.0),
        ("Gi", 1024.0 * 1024.0 * 1024.0),
        ("m", 0.001),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("", 1.0),
    ];
    let (number, factor) = suffixes
        .iter()
        .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)))
        .expect("the last suffix is empty");
    number.parse::<f64>().map_or(Value::String(text.clone()), |number| Value::from(number * factor))
}

/// Fields that Kubernetes omits when they are zero.
const OMITTED: [&str; 5] = ["initialDelaySeconds", "minReadySeconds", "paused", "readOnly", "test"];

const UNORDERED: [&str; 6] =
    ["add", "drop", "imagePullSecrets", "ports", "volumeMounts", "volumes"];
