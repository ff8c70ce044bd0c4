//! Keys of a document that nobody reads.

use serde_json::Value;

use super::near;

/// Which keys a part of a document has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// Whatever stands there is somebody else's, or has keys of the user's own.
    Any,
    /// A mapping with these keys.
    Keys(&'static [(&'static str, Shape)]),
    /// A list of such parts.
    List(&'static Shape),
}

/// A key that is not known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct UnknownKey {
    /// The way to it, keys joined by dots.
    pub(super) path: String,
    /// The key that may be meant.
    pub(super) near: Option<&'static str>,
}

/// The keys of a document that its shape does not have, in the document's order.
pub(super) fn unknown_keys(document: &Value, shape: Shape) -> Vec<UnknownKey> {
    let mut unknown = Vec::new();
    walk(document, shape, "", &mut unknown);
    unknown
}

/// Documents of a shape each of which has one key alone, and that is null.
#[cfg(test)]
pub(super) fn nulls(shape: Shape) -> Vec<Value> {
    let within: Vec<Value> = match shape {
        Shape::Any => Vec::new(),
        Shape::Keys(keys) => {
            let parts = keys.iter().flat_map(|(key, shape)| {
                nulls(*shape).into_iter().map(move |part| serde_json::json!({ *key: part }))
            });
            parts.collect()
        }
        Shape::List(shape) => nulls(*shape).into_iter().map(|null| vec![null].into()).collect(),
    };
    within.into_iter().chain([Value::Null]).collect()
}

fn walk(part: &Value, shape: Shape, path: &str, unknown: &mut Vec<UnknownKey>) {
    match (part, shape) {
        (Value::Object(members), Shape::Keys(keys)) => {
            for (name, value) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                if let Some((_, shape)) = keys.iter().find(|(key, _)| key == name) {
                    walk(value, *shape, &path, unknown);
                    continue;
                }
                let names: Vec<_> = keys.iter().map(|(key, _)| *key).collect();
                unknown.push(UnknownKey { path, near: near::among(name, &names) });
            }
        }
        (Value::Array(items), Shape::List(shape)) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, *shape, &format!("{path}[{index}]"), unknown);
            }
        }
        // What has the wrong form is told of where it is read.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_beside_known_ones_is_named_with_what_may_be_meant() {
        const SHAPE: Shape = Shape::Keys(&[
            ("policy", Shape::Any),
            ("labels", Shape::Any),
            ("rules", Shape::List(&Shape::Keys(&[("verbs", Shape::Any)]))),
        ]);
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
