//! Names of the containers, volumes and secrets that overlays add to a pod.

use serde_json::{Map, Value};

/// Returns the outline of an overlay: the names of its containers, volumes and secrets, and the
/// directives of the strategic merge.
///
/// Merged outlines have the same names as the merged overlays, for a small part of the work.
pub fn outline(overlay: &Value) -> Value {
    let spec = overlay["spec"].as_object().into_iter().flatten();
    let spec = spec.filter_map(|(field, value)| match value {
        Value::Array(items) if NAMED.contains(&&**field) => {
            Some((field.clone(), items.iter().map(outline_of_item).collect()))
        }
        value => {
            let kept = is_directive(field) || NAMED.contains(&&**field);
            kept.then(|| (field.clone(), value.clone()))
        }
    });
    let spec = ("spec".to_owned(), Value::Object(spec.collect()));
    let directives = overlay.as_object().into_iter().flatten();
    let directives = directives.filter(|(field, _)| is_directive(field));
    let directives = directives.map(|(field, value)| (field.clone(), value.clone()));
    Value::Object(directives.chain([spec]).collect())
}

fn outline_of_item(item: &Value) -> Value {
    let Value::Object(fields) = item else { return item.clone() };
    let kept = fields.iter().filter(|(field, _)| *field == "name" || is_directive(field));
    Value::Object(kept.map(|(field, value)| (field.clone(), value.clone())).collect::<Map<_, _>>())
}

fn is_directive(field: &str) -> bool {
    field.starts_with('$')
}

/// The lists of `spec` whose items the status annotation names.
const NAMED: [&str; 4] = ["containers", "imagePullSecrets", "initContainers", "volumes"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::merge::merge;

    #[test]
    fn merged_outline_has_the_names_of_all_overlays() {
        let overlays = [
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {
                "containers": [{"name": "p", "image": "i"}, {"name": "q", "$patch": "delete"}],
                "initContainers": [{"name": "i", "env": [{"name": "e"}]}],
                "imagePullSecrets": [], "volumes": [{"name": "v"}, {"name": "w"}], "x": 1,
            }}),
            json!({"spec": {
                "containers": [{"name": "c", "command": []}, {"name": "p", "ports": null}],
                "initContainers": [{"name": "i", "$patch": "delete"}, {"name": "j"}],
                "volumes": [{"$patch": "replace"}, {"name": "u", "emptyDir": {}}],
            }}),
            json!({"spec": {"imagePullSecrets": [{"name": "s"}], "containers": null}}),
            json!({"spec": {"$retainKeys": ["volumes"]}}),
            json!({"spec": {"$patch": "replace", "volumes": [{"name": "last"}]}}),
            json!({"$patch": "delete"}),
        ];
        let (mut whole, mut outlined) = (json!({}), json!({}));
        for overlay in overlays {
            merge(&mut outlined, outline(&overlay)).unwrap();
            merge(&mut whole, overlay).unwrap();
            for list in NAMED {
                assert_eq!(names(&outlined, list), names(&whole, list), "{list}");
            }
        }
    }

    fn names<'a>(pod: &'a Value, list: &str) -> Vec<&'a Value> {
        let items = pod["spec"][list].as_array().into_iter().flatten();
        items.map(|item| &item["name"]).collect()
    }
}
