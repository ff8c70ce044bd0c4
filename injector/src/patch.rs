//! From what was done to RFC 6902.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation};
use serde_json::Value;

use crate::change::{Change, ListChange};

/// Writes what was done as a patch that turns `before` into `after`.
///
/// Only what was changed is looked at. Members come in the order of their keys; in a list, first
/// what goes (from the end), then what comes, then what changed in place. There are no `test`
/// operations.
pub fn write(before: &Value, after: &Value, change: &Change) -> Patch {
    let mut writer = Writer { path: PointerBuf::root(), operations: Vec::new() };
    writer.value(before, after, change);
    Patch(writer.operations)
}

struct Writer {
    path: PointerBuf,
    operations: Vec<PatchOperation>,
}

impl Writer {
    fn value(&mut self, before: &Value, after: &Value, change: &Change) {
        match (change, before, after) {
            (Change::Kept | Change::Removed, _, _) => {}
            (Change::Object(members), Value::Object(before), Value::Object(after)) => {
                for (key, change) in members {
                    self.path.push_back(key.as_str());
                    self.member(before.get(key), after.get(key), change);
                    self.path.pop_back();
                }
            }
            (Change::List(change), Value::Array(before), Value::Array(after)) => {
                self.list(before, after, change);
            }
            _ if before == after => {}
            _ => self.operations.push(PatchOperation::Replace(ReplaceOperation {
                path: self.path.clone(),
                value: after.clone(),
            })),
        }
    }

    fn member(&mut self, before: Option<&Value>, after: Option<&Value>, change: &Change) {
        match (before, after) {
            (Some(before), Some(after)) => self.value(before, after, change),
            (None, Some(after)) => self.add(after),
            (Some(_), None) => self.remove(),
            (None, None) => {}
        }
    }

    fn list(&mut self, before: &[Value], after: &[Value], change: &ListChange) {
        if let Some(origins) = change.origins() {
            let stays = longest_ascending(origins);
            let mut kept = vec![false; before.len()];
            for origin in
                origins.iter().zip(&stays).filter_map(|(origin, stays)| origin.filter(|_| *stays))
            {
                kept[origin] = true;
            }
            for (index, _) in kept.iter().enumerate().rev().filter(|(_, kept)| !**kept) {
                self.at(index, Self::remove);
            }
            for (index, _) in stays.iter().enumerate().filter(|(_, stays)| !**stays) {
                self.at(index, |writer| writer.add(&after[index]));
            }
            for (index, change) in change.items().filter(|(index, _)| stays[*index]) {
                if let Some(origin) = origins[index] {
                    self.at(index, |writer| writer.value(&before[origin], &after[index], change));
                }
            }
        } else {
            for (index, change) in change.items() {
                self.at(index, |writer| writer.value(&before[index], &after[index], change));
            }
        }
    }

    fn at(&mut self, index: usize, write: impl FnOnce(&mut Self)) {
        self.path.push_back(index);
        write(self);
        self.path.pop_back();
    }

    fn add(&mut self, value: &Value) {
        let (path, value) = (self.path.clone(), value.clone());
        self.operations.push(PatchOperation::Add(AddOperation { path, value }));
    }

    fn remove(&mut self) {
        let path = self.path.clone();
        self.operations.push(PatchOperation::Remove(RemoveOperation { path }));
    }
}

/// Marks a longest run of items whose earlier indices ascend: these stay where they are, all
/// others are taken out and put in.
fn longest_ascending(origins: &[Option<usize>]) -> Vec<bool> {
    // For each length, where the run of that length with the smallest end ends.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; origins.len()];
    for (index, origin) in origins.iter().enumerate() {
        let Some(origin) = origin else { continue };
        let length = ends.partition_point(|end| origins[*end].is_some_and(|at| at < *origin));
        before[index] = length.checked_sub(1).map(|shorter| ends[shorter]);
        if length == ends.len() {
            ends.push(index);
        } else {
            ends[length] = index;
        }
    }
    let mut stays = vec![false; origins.len()];
    let mut next = ends.last().copied();
    while let Some(index) = next {
        stays[index] = true;
        next = before[index];
    }
    stays
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::change::{Draft, Step};

    #[test]
    fn an_item_put_first_is_one_operation() {
        let before = json!({"l": [{"n": 1}, {"n": 2}]});
        let mut draft = Draft::new(before.clone());
        draft.push(&["l".into()], json!({"n": 0}));
        draft.reorder(&["l".into()], &[2, 0, 1]);
        draft.set(&["l".into(), 2.into(), "m".into()], json!(true));
        let (after, change) = draft.finish();
        let patch = write(&before, &after, &change);
        assert_eq!(
            serde_json::to_value(&patch).unwrap(),
            json!([
                {"op": "add", "path": "/l/0", "value": {"n": 0}},
                {"op": "add", "path": "/l/2/m", "value": true},
            ])
        );
    }

    #[test]
    fn keys_are_escaped() {
        let before = json!({"a": {}});
        let mut draft = Draft::new(before.clone());
        draft.set(&["a".into(), "x/y~z".into()], json!("v"));
        let (after, change) = draft.finish();
        let patch = write(&before, &after, &change);
        assert_eq!(
            serde_json::to_value(&patch).unwrap(),
            json!([{"op": "add", "path": "/a/x~1y~0z", "value": "v"}])
        );
    }

    #[derive(Clone, Debug)]
    enum Edit {
        Set(usize, u8),
        SetKey(usize, usize, u8),
        RemoveKey(usize, usize),
        Push(u8),
        Rotate(usize),
        Swap(usize, usize),
        Drop(usize),
    }

    fn edits() -> impl Strategy<Value = Vec<Edit>> {
        let edit = prop_oneof![
            (0..9usize, any::<u8>()).prop_map(|(i, v)| Edit::Set(i, v)),
            (0..9usize, 0..4usize, any::<u8>()).prop_map(|(i, k, v)| Edit::SetKey(i, k, v)),
            (0..9usize, 0..4usize).prop_map(|(i, k)| Edit::RemoveKey(i, k)),
            any::<u8>().prop_map(Edit::Push),
            (0..9usize).prop_map(Edit::Rotate),
            (0..9usize, 0..9usize).prop_map(|(a, b)| Edit::Swap(a, b)),
            (0..9usize).prop_map(Edit::Drop),
        ];
        prop::collection::vec(edit, 0..12)
    }

    const KEYS: [&str; 4] = ["a", "~", "/", "ü"];

    fn apply(draft: &mut Draft, edit: &Edit) {
        let list: Step<'_> = "l".into();
        let len = draft.value()["l"].as_array().map_or(0, Vec::len);
        match *edit {
            Edit::Push(v) => draft.push(&[list], json!({"a": v})),
            _ if len == 0 => {}
            Edit::Set(i, v) => draft.set(&[list, (i % len).into()], json!({"a": v})),
            Edit::SetKey(i, k, v) => draft.set(&[list, (i % len).into(), KEYS[k].into()], json!(v)),
            Edit::RemoveKey(i, k) => draft.remove(&[list, (i % len).into()], KEYS[k]),
            Edit::Rotate(by) => {
                let order: Vec<_> = (0..len).map(|i| (i + by) % len).collect();
                draft.reorder(&[list], &order);
            }
            Edit::Swap(a, b) => {
                let mut order: Vec<_> = (0..len).collect();
                order.swap(a % len, b % len);
                draft.reorder(&[list], &order);
            }
            Edit::Drop(i) => {
                let result: Result<(), ()> = draft.edit(|value| {
                    let items = value["l"].as_array_mut().unwrap();
                    items.remove(i % len);
                    let origins = (0..len).filter(|at| *at != i % len).map(Some).collect();
                    Ok(Change::member("l", Change::list(origins, len, BTreeMap::new())))
                });
                result.unwrap();
            }
        }
    }

    proptest! {
        #[test]
        fn the_patch_gives_what_the_edits_gave(
            items in prop::collection::vec(any::<u8>(), 0..6),
            edits in edits(),
        ) {
            let items: Vec<_> = items.iter().map(|v| json!({"a": v, "~": 1})).collect();
            let before = json!({"l": items});
            let mut draft = Draft::new(before.clone());
            for edit in &edits {
                apply(&mut draft, edit);
            }
            let (after, change) = draft.finish();
            let mut patched = before.clone();
            json_patch::patch(&mut patched, &write(&before, &after, &change)).unwrap();
            prop_assert_eq!(patched, after);
        }
    }
}
