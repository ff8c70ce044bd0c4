//! Unknown keys of a document.

use go_types::{FieldKind, Type};
use serde_json::Value;

use crate::suggest;

/// Known keys of a part of a document.
#[derive(Clone, Copy)]
pub enum Shape {
    /// Any content: another program reads it, or its keys are the user's.
    Any,
    /// A mapping with keys of any content, between blanks, and with keys of these shapes.
    Keys(&'static str, &'static [(&'static str, Shape)]),
    /// A list of parts with this shape.
    List(&'static Shape),
    /// A message of Istio's API.
    Message(&'static Type),
}

/// An unknown key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnknownKey {
    /// Its path, keys joined by dots.
    pub path: String,
    /// The suggested key.
    pub near: Option<&'static str>,
}

/// Returns the unknown keys in the order of the document.
pub fn unknown_keys(document: &Value, shape: Shape) -> Vec<UnknownKey> {
    let mut unknown = Vec::new();
    walk(document, shape, "", &mut unknown);
    unknown
}

fn walk(part: &Value, shape: Shape, path: &str, unknown: &mut Vec<UnknownKey>) {
    match (part, shape) {
        (Value::Object(members), Shape::Keys(plain, shaped)) => {
            let names: Vec<_> =
                plain.split_whitespace().chain(shaped.iter().map(|(name, _)| *name)).collect();
            for (name, value) in members {
                let path = below(path, name);
                if let Some((_, shape)) = shaped.iter().find(|(key, _)| key == name) {
                    walk(value, *shape, &path, unknown);
                    continue;
                }
                if names.contains(&name.as_str()) {
                    continue;
                }
                unknown.push(UnknownKey { path, near: suggest::among(name, &names) });
            }
        }
        (Value::Array(items), Shape::List(shape)) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, *shape, &format!("{path}[{index}]"), unknown);
            }
        }
        (Value::Object(members), Shape::Message(of)) => {
            for (name, value) in members {
                let path = below(path, name);
                if let Some(field) = of.field(name) {
                    walk_field(value, field.kind, &path, unknown);
                    continue;
                }
                let names: Vec<_> = of.fields().map(|field| field.json).collect();
                unknown.push(UnknownKey { path, near: suggest::among(name, &names) });
            }
        }
        // A value of the wrong type is reported when the document is deserialised.
        _ => {}
    }
}

fn walk_field(value: &Value, kind: FieldKind, path: &str, unknown: &mut Vec<UnknownKey>) {
    match (value, kind) {
        (Value::Array(items), FieldKind::List(kind)) => {
            for (index, item) in items.iter().enumerate() {
                walk_field(item, *kind, &format!("{path}[{index}]"), unknown);
            }
        }
        (Value::Object(entries), FieldKind::Map(kind)) => {
            for (key, entry) in entries {
                walk_field(entry, *kind, &format!("{path}.{key}"), unknown);
            }
        }
        (value, kind) => {
            if let Some(of) = message_of(kind) {
                walk(value, Shape::Message(of), path, unknown);
            }
        }
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Returns the message type of a field that holds a message directly.
pub fn message_of(kind: FieldKind) -> Option<&'static Type> {
    match kind {
        FieldKind::Pointer(kind) => message_of(*kind),
        FieldKind::Struct(of) => Some(of),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_key_is_named_with_a_suggestion() {
        const SHAPE: Shape =
            Shape::Keys("policy labels", &[("rules", Shape::List(&Shape::Keys("verbs", &[])))]);
        let document = json!({
            "policy": {"anything": 1}, "polcy": 2, "rules": [{"verbs": []}, {"verb": []}],
            "labels": "of another form", "elsewhere": null,
        });
        let found = unknown_keys(&document, SHAPE);
        let found: Vec<_> = found.iter().map(|key| (key.path.as_str(), key.near)).collect();
        assert_eq!(
            found,
            [("elsewhere", None), ("polcy", Some("policy")), ("rules[1].verb", Some("verbs"))]
        );
    }
}
