//! Differences between two objects of the API server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A path, and the value on either side; null means absent.
pub(crate) type Difference = (String, Value, Value);

/// Returns every difference between two objects, at any depth. List items match by index and name.
pub(crate) fn differences(left: &Value, right: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    look("", left, right, &mut found);
    found
}

fn look(path: &str, left: &Value, right: &Value, found: &mut Vec<Difference>) {
    match (children(left), children(right)) {
        (Some(left), Some(right)) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let side = |children: &BTreeMap<String, Value>| {
                    children.get(key).cloned().unwrap_or_default()
                };
                look(&format!("{path}/{key}"), &side(&left), &side(&right), found);
            }
        }
        _ if left != right => found.push((path.to_owned(), left.clone(), right.clone())),
        _ => {}
    }
}

fn children(value: &Value) -> Option<BTreeMap<String, Value>> {
    let of_item = |(index, item): (usize, &Value)| {
        // The volume of the ServiceAccount token has a random suffix in its name.
        let name = item["name"].as_str().map(|name| match name.strip_prefix("kube-api-access-") {
            Some(_) => "kube-api-access".to_owned(),
            None => name.to_owned(),
        });
        (format!("{index}:{}", name.unwrap_or_default()), item.clone())
    };
    match value {
        Value::Object(fields) => {
            Some(fields.iter().map(|(key, field)| (key.clone(), field.clone())).collect())
        }
        Value::Array(items) => Some(items.iter().enumerate().map(of_item).collect()),
        _ => None,
    }
}
