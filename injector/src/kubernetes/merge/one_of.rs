//! Mutually exclusive fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::added_value::is_omitted;
use crate::json::change::Change;

/// Removes the fields of an object that a field of the patch excludes.
///
/// The API server would reject an object with both, and so would its own merge. The user means the
/// patch's field in place of the other.
pub(super) fn choose(
    original: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    field: &str,
    changes: &mut BTreeMap<String, Change>,
) {
    let union = exclusive_fields(field);
    let chosen = |choice: &&str| {
        patch
            .get(*choice)
            .is_some_and(|value| !value.is_null() && !is_omitted(field, choice, value))
    };
    if !union.iter().any(chosen) {
        return;
    }
    for field in union.iter().filter(|field| !patch.contains_key(**field)) {
        if let Some(before) = original.remove(*field) {
            changes.insert((*field).to_owned(), Change::Removed(before));
        }
    }
}

/// Returns the mutually exclusive fields of an object, or of the items of a list, with this name.
fn exclusive_fields(field: &str) -> &'static [&'static str] {
    match field {
        "env" => &["value", "valueFrom"],
        "valueFrom" => {
            &["configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"]
        }
        "livenessProbe" | "readinessProbe" | "startupProbe" => {
            &["exec", "grpc", "httpGet", "tcpSocket"]
        }
        "postStart" | "preStop" => &["exec", "httpGet", "sleep", "tcpSocket"],
        _ => &[],
    }
}
