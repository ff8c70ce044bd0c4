//! Zero values that Kubernetes' types omit from a container's JSON.

use go_types::{Field, FieldKind, POD_SPEC, Type};
use serde_json::Value;

/// Removes the zero values that an API server removes before it calls a webhook. Istio removes them
/// before it merges a user-supplied container over the injected one. So `args: []` does not replace
/// the injected arguments.
pub(crate) fn take_out(container: &mut Value) {
    let Some(of) = POD_SPEC.field("containers").and_then(|field| struct_of(field.kind)) else {
        return;
    };
    take_out_of(container, of);
    for name in INSIDE {
        let Some(of) = of.field(name).and_then(|field| struct_of(field.kind)) else { continue };
        match container.get_mut(name) {
            Some(Value::Array(items)) => items.iter_mut().for_each(|item| take_out_of(item, of)),
            Some(member) => take_out_of(member, of),
            None => {}
        }
    }
}

fn take_out_of(value: &mut Value, of: &Type) {
    let is_omitted = |field: &Field| {
        !field.is_kept() && !matches!(field.kind, FieldKind::Pointer(_) | FieldKind::Struct(_))
    };
    if let Value::Object(members) = value {
        members.retain(|name, member| !(is_zero(member) && of.field(name).is_some_and(is_omitted)));
    }
}

fn struct_of(kind: FieldKind) -> Option<&'static Type> {
    match kind {
        FieldKind::List(kind) | FieldKind::Pointer(kind) => struct_of(*kind),
        FieldKind::Struct(of) => Some(of),
        _ => None,
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

/// Members of a container in which zero values are removed too.
const INSIDE: [&str; 6] =
    ["env", "livenessProbe", "ports", "readinessProbe", "startupProbe", "volumeMounts"];
