//! Zero values that Kubernetes' types omit from a container's JSON.

use serde_json::Value;

/// Removes the zero values that an API server removes before it calls a webhook. Istio removes them
/// before it merges a user-supplied container over the injected one. So `args: []` does not replace
/// the injected arguments.
pub(crate) fn take_out(container: &mut Value) {
    take_out_of(container, CONTAINER);
    for (place, fields) in INSIDE {
        match container.get_mut(*place) {
            Some(Value::Array(items)) => {
                for item in items {
                    take_out_of(item, fields);
                }
            }
            Some(member) => take_out_of(member, fields),
            None => {}
        }
    }
}

fn take_out_of(value: &mut Value, fields: &[&str]) {
    if let Value::Object(members) = value {
        members.retain(|name, member| !(fields.contains(&name.as_str()) && is_zero(member)));
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        value => *value == false,
    }
}

/// Fields of a container that have `omitempty` and are not pointers in Kubernetes' types.
const CONTAINER: &[&str] = &[
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "ports",
    "resizePolicy",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];

/// Such fields of members of a container.
const INSIDE: &[(&str, &[&str])] = &[
    ("env", &["value"]),
    ("livenessProbe", PROBE),
    ("ports", &["hostIP", "hostPort", "name", "protocol"]),
    ("readinessProbe", PROBE),
    ("startupProbe", PROBE),
    ("volumeMounts", &["readOnly", "subPath", "subPathExpr"]),
];

const PROBE: &[&str] = &[
    "failureThreshold",
    "initialDelaySeconds",
    "periodSeconds",
    "successThreshold",
    "timeoutSeconds",
];
