//! Kubernetes objects of a document.

use documents::yaml::{self, YamlError};
use serde_json::Value;

/// Parses a document. The items of a list are objects of their own; an empty document has none.
pub(super) fn parse(text: &str) -> Result<Vec<Value>, YamlError> {
    let mut objects = Vec::new();
    flatten(yaml::parse_file(text)?, &mut objects);
    Ok(objects)
}

fn flatten(value: Value, objects: &mut Vec<Value>) {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match value {
        Value::Null => {}
        Value::Object(mut list) if is_list && list.get("items").is_some_and(Value::is_array) => {
            if let Some(Value::Array(items)) = list.remove("items") {
                for item in items {
                    flatten(item, objects);
                }
            }
        }
        object => objects.push(object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_lists_are_objects() {
        let list = "kind: List\nitems:\n- {kind: Pod}\n- {kind: PodList, items: [{kind: A}]}\n";
        let kinds = |text: &str| {
            let objects = parse(text).unwrap().into_iter();
            objects.map(|object| object["kind"].to_string()).collect::<Vec<_>>()
        };
        assert_eq!(kinds(list), ["\"Pod\"", "\"A\""]);
        assert_eq!(kinds("---\n# nothing\n"), [""; 0]);
        assert_eq!(kinds("kind: Pod"), ["\"Pod\""]);
    }
}
