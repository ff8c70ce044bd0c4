//! Change between two JSON values that were not edited step by step.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::Value;

use crate::json::change::Change;

/// Returns the change that leads from `before` to `after`.
///
/// Items of a list are the same if they have the same `name`, or are equal if they have none.
pub fn difference(before: &Value, after: &Value) -> Change {
    match (before, after) {
        (before, after) if before == after => Change::Kept,
        (Value::Object(before), Value::Object(after)) => {
            let removed = before.iter().filter(|(key, _)| !after.contains_key(*key));
            let removed = removed.map(|(key, value)| (key.clone(), Change::Removed(value.clone())));
            let present = after.iter().map(|(key, after)| {
                let change = before.get(key).map(|before| difference(before, after));
                (key.clone(), change.unwrap_or(Change::Set(None)))
            });
            let changed = present.filter(|(_, change)| *change != Change::Kept);
            Change::Object(removed.chain(changed).collect())
        }
        (Value::Array(before), Value::Array(after)) => list(before, after),
        (before, _) => Change::Set(Some(before.clone())),
    }
}

fn list(before: &[Value], after: &[Value]) -> Change {
    let mut places: HashMap<_, VecDeque<usize>> = HashMap::with_capacity(before.len());
    for (index, item) in before.iter().enumerate() {
        places.entry(identity(item)).or_default().push_back(index);
    }
    let same = |item| places.get_mut(&identity(item)).and_then(VecDeque::pop_front);
    let origins: Vec<_> = after.iter().map(same).collect();
    let gone = places.into_values().flatten().map(|index| (index, before[index].clone()));
    let gone: BTreeMap<_, _> = gone.collect();
    let kept = origins.iter().enumerate().filter_map(|(index, origin)| {
        Some((index, difference(&before[(*origin)?], &after[index])))
    });
    let items = kept.collect();
    Change::list(origins, gone, items)
}

/// Returns the name of an item, else its text.
fn identity(item: &Value) -> (bool, String) {
    match item["name"].as_str() {
        Some(name) => (true, name.to_owned()),
        None => (false, item.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::json::patch;

    #[test]
    fn named_item_is_edited_in_place() {
        let before = json!({"list": [{"name": "a", "x": 1}, {"name": "b"}, {"name": "c", "x": 1}]});
        let after = json!({"list": [{"name": "a", "x": 1}, {"name": "c", "x": 2}]});
        let change = difference(&before, &after);
        assert_eq!(
            serde_json::to_value(patch::write(&after, &change)).unwrap(),
            json!([
                {"op": "remove", "path": "/list/1"},
                {"op": "replace", "path": "/list/1/x", "value": 2},
            ])
        );
    }

    proptest! {
        #[test]
        fn patch_of_a_difference_leads_to_the_other_value(before in value(), after in value()) {
            let change = difference(&before, &after);
            let mut patched = before.clone();
            json_patch::patch(&mut patched, &patch::write(&after, &change).owned()).unwrap();
            prop_assert_eq!(patched, after);
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(null)), (0..3).prop_map(Value::from)];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let named = ("[ab]", inner.clone()).prop_map(|(name, x)| json!({"name": name, "x": x}));
            prop_oneof![
                prop::collection::vec(prop_oneof![inner.clone(), named], 0..5)
                    .prop_map(Value::from),
                prop::collection::btree_map("[ab]", inner, 0..3)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }
}
