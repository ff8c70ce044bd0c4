//! A value of an overlay that has nothing to merge with.

use serde_json::Value;

use super::{DIRECTIVES, PATCH, RETAIN_KEYS};

/// The value as it comes into an object that has nothing in its place: its members without nulls,
/// and without what carries a directive, which has nothing to act on. `None` where nothing is left
/// of it.
pub(super) fn added(mut value: Value) -> Option<Value> {
    is_something(&mut value).then_some(value)
}

/// Takes out of a value what [`added`] leaves out, in place; whether anything is to be added.
fn is_something(value: &mut Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(members) => {
            let something = !members.contains_key(PATCH);
            // Taking members out costs several times as much as looking at them.
            if something
                && !members.iter().all(|(key, value)| key != RETAIN_KEYS && is_whole(value))
            {
                members.retain(|key, value| key != RETAIN_KEYS && is_something(value));
            }
            something
        }
        Value::Array(items) => {
            // To the API server an empty list is none.
            let something = !items.is_empty();
            items.retain_mut(|item| item.is_null() || is_something(item));
            something
        }
        _ => true,
    }
}

/// Whether the value is to be added and nothing is to be taken out of it.
fn is_whole(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(members) => {
            let mut members = members.iter();
            members.all(|(key, value)| !DIRECTIVES.contains(&key.as_str()) && is_whole(value))
        }
        Value::Array(items) => {
            !items.is_empty() && items.iter().all(|item| item.is_null() || is_whole(item))
        }
        _ => true,
    }
}

/// The value as a new item of a list, or in place of another one: without nulls and without the
/// directives themselves, but with what stands beside them.
pub fn without_nulls_and_directives(mut value: Value) -> Value {
    drop_nulls(&mut value);
    value
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => members.retain(|key, value| {
            let stays = !value.is_null() && !DIRECTIVES.contains(&key.as_str());
            if stays {
                drop_nulls(value);
            }
            stays
        }),
        Value::Array(items) => items.retain_mut(|item| {
            let stays = !is_directive(item);
            if stays {
                drop_nulls(item);
            }
            stays
        }),
        _ => {}
    }
}

/// Whether an item of a list is a directive and nothing else.
fn is_directive(item: &Value) -> bool {
    item.as_object().is_some_and(|item| item.len() == 1 && item.contains_key(PATCH))
}

/// Whether Kubernetes leaves the field of an object out, so that a pod which comes from there has it
/// without. The entries of a map are its user's.
pub(crate) fn is_omitted(object: &str, field: &str, value: &Value) -> bool {
    match value {
        _ if MAPS.contains(&object) || object == "matchLabels" => false,
        Value::Bool(value) => !value && OMITTED.contains(&field),
        Value::Number(value) => value.as_u64() == Some(0) && OMITTED.contains(&field),
        Value::String(value) => value.is_empty() && OMITTED.contains(&field),
        Value::Array(value) => value.is_empty(),
        Value::Object(value) => value.is_empty() && MAPS.contains(&field),
        Value::Null => false,
    }
}

/// Fields that mean the same when they are zero and when they are not there.
const OMITTED: [&str; 31] = [
    "dnsPolicy",
    "failureThreshold",
    "hostIP",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "hostname",
    "imagePullPolicy",
    "initialDelaySeconds",
    "nodeName",
    "periodSeconds",
    "priorityClassName",
    "protocol",
    "readOnly",
    "restartPolicy",
    "schedulerName",
    "serviceAccount",
    "serviceAccountName",
    "stdin",
    "stdinOnce",
    "subPath",
    "subPathExpr",
    "subdomain",
    "successThreshold",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "timeoutSeconds",
    "tty",
    "value",
    "workingDir",
];

/// The same of maps without entries.
const MAPS: [&str; 5] = ["annotations", "labels", "limits", "nodeSelector", "requests"];
