//! Values of an overlay without a counterpart in the pod.

use serde_json::Value;

use super::{DIRECTIVES, PATCH, RETAIN_KEYS};

/// Returns the value as it is added to an object without a counterpart: without nulls, and without
/// values that carry a directive, which has nothing to act on. `None` if nothing remains.
pub(super) fn added(mut value: Value) -> Option<Value> {
    is_something(&mut value).then_some(value)
}

/// Removes in place everything that [`added`] leaves out. Returns true if anything remains.
fn is_something(value: &mut Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(members) => {
            let something = !members.contains_key(PATCH);
            // Removing members costs several times as much as checking them.
            if something
                && !members.iter().all(|(key, value)| key != RETAIN_KEYS && is_whole(value))
            {
                members.retain(|key, value| key != RETAIN_KEYS && is_something(value));
            }
            something
        }
        Value::Array(items) => {
            // The API server treats an empty list as absent.
            let something = !items.is_empty();
            items.retain_mut(|item| item.is_null() || is_something(item));
            something
        }
        _ => true,
    }
}

/// True if the value is added and nothing is removed from it.
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

/// Returns the value as a new item of a list, or as a replacement: without nulls and directives,
/// but with the members beside the directives.
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

/// True if an item of a list consists of a directive only.
fn is_directive(item: &Value) -> bool {
    item.as_object().is_some_and(|item| item.len() == 1 && item.contains_key(PATCH))
}

/// True if Kubernetes omits the field of an object when it is empty, so that a pod from the API
/// server does not have it. The entries of a map are the user's and are kept.
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

/// Fields whose zero value means the same as absence.
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

/// Maps that mean the same when they are empty and when they are absent.
const MAPS: [&str; 5] = ["annotations", "labels", "limits", "nodeSelector", "requests"];
