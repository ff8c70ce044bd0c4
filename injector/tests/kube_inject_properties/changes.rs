//! Generated patches that apply to any value.

use std::collections::BTreeSet;

use json_patch::Patch;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

/// One operation, chosen from those possible on the current value.
#[derive(Clone, Debug)]
pub(crate) struct GeneratedChange {
    what: u8,
    place: Index,
    other: Index,
    value: Value,
}

pub(crate) fn step() -> impl Strategy<Value = GeneratedChange> {
    let value = prop_oneof![
        Just(json!("plain")),
        Just(json!("yes")),
        Just(json!("{\"a\": 'b'}")),
        Just(json!("two\nlines\n")),
        Just(json!("\ttab\nline")),
        Just(json!("# no comment")),
        Just(json!("")),
        Just(json!(null)),
        Just(json!(1.5)),
        Just(json!([])),
        Just(json!({})),
        Just(json!({"name": "x", "list": [1, {"a": "b\n\n"}], "map": {"k": [["n"], []]}})),
        Just(json!([{"name": "x", "value": "y"}, "z", ["a"]])),
    ];
    (any::<u8>(), any::<Index>(), any::<Index>(), value)
        .prop_map(|(what, place, other, value)| GeneratedChange { what, place, other, value })
}

/// A growing patch, with the marks of the values that it touches.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) pod: Value,
    pub(crate) operations: Vec<Value>,
    pub(crate) touched: BTreeSet<String>,
    pub(crate) moved: bool,
}

impl Changes {
    pub(crate) fn apply(&mut self, step: &GeneratedChange) {
        let mut places = Vec::new();
        collections(&self.pod, String::new(), &mut places);
        let place = step.place.get(&places).clone();
        let fresh = format!("new{}", self.operations.len());
        let operation = match self.pod.pointer(&place).unwrap() {
            Value::Array(items) if !items.is_empty() => {
                let (at, to) = (step.other.index(items.len()), step.place.index(items.len()));
                match step.what % 4 {
                    0 => json!({"op": "add", "path": format!("{place}/{at}"), "value": step.value}),
                    1 => json!({"op": "remove", "path": format!("{place}/{at}")}),
                    2 => {
                        json!({"op": "replace", "path": format!("{place}/{at}"), "value": step.value})
                    }
                    _ => {
                        json!({"op": "move", "from": format!("{place}/{at}"), "path": format!("{place}/{to}")})
                    }
                }
            }
            Value::Object(entries)
                if entries.len() > 2 || place.len() > 2 && !entries.is_empty() =>
            {
                let key = step.other.get(&entries.keys().collect::<Vec<_>>()).replace('~', "~0");
                let path = format!("{place}/{}", key.replace('/', "~1"));
                let kept = matches!(path.as_str(), "/apiVersion" | "/kind");
                match step.what % 3 {
                    0 if !kept => json!({"op": "remove", "path": path}),
                    1 if !kept => json!({"op": "replace", "path": path, "value": step.value}),
                    _ => {
                        json!({"op": "add", "path": format!("{place}/{fresh}"), "value": step.value})
                    }
                }
            }
            Value::Array(_) => {
                json!({"op": "add", "path": format!("{place}/-"), "value": step.value})
            }
            _ => json!({"op": "add", "path": format!("{place}/{fresh}"), "value": step.value}),
        };
        match operation["op"].as_str().unwrap() {
            "move" => self.moved = true,
            "add" => {}
            _ => {
                let path = operation["path"].as_str().unwrap();
                marks(self.pod.pointer(path).unwrap(), &mut self.touched);
            }
        }
        let patch: Patch = serde_json::from_value(json!([operation])).unwrap();
        json_patch::patch(&mut self.pod, &patch).unwrap();
        self.operations.push(operation);
    }
}

fn collections(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collections(item, format!("{place}/{index}"), places);
            }
        }
        Value::Object(entries) => {
            for (key, value) in entries {
                let key = key.replace('~', "~0").replace('/', "~1");
                collections(value, format!("{place}/{key}"), places);
            }
        }
        _ => return,
    }
    places.push(place);
}

fn marks(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| marks(item, found)),
        Value::Object(entries) => entries.values().for_each(|value| marks(value, found)),
        Value::String(text) => {
            found.extend(
                text.split_whitespace().filter(|word| word.starts_with("mark")).map(str::to_owned),
            );
        }
        _ => {}
    }
}
