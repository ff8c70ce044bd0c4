//! RFC 6902 patches from recorded changes.

use std::fmt::Write as _;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use serde::Serialize;
use serde_json::Value;

use crate::json::change::{Change, ListChange};

/// Returns the patch that leads to the present value.
///
/// The cost depends only on the changes. Members come in the order of their keys. In a list the
/// removals come first, from the end, then the additions, then the changes in place. There are no
/// `test` operations.
pub fn write<'a>(present: &'a Value, change: &'a Change) -> Patch<'a> {
    let mut writer = Writer { path: String::new(), operations: Vec::new() };
    writer.value(present, change);
    Patch(writer.operations)
}

/// A patch that borrows its values from the patched value.
#[derive(Clone, Debug, Serialize)]
pub struct Patch<'a>(Vec<Operation<'a>>);

impl Patch<'_> {
    /// True if there is no operation.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a copy of the patch that owns its values.
    pub fn owned(&self) -> json_patch::Patch {
        json_patch::Patch(self.0.iter().map(Operation::owned).collect())
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Operation<'a> {
    Add { path: String, value: &'a Value },
    Remove { path: String },
    Replace { path: String, value: &'a Value },
}

impl Operation<'_> {
    fn owned(&self) -> PatchOperation {
        #[expect(clippy::expect_used, reason = "the writer escapes every step")]
        let pointer =
            |path: &String| PointerBuf::parse(path.as_str()).expect("steps are written escaped");
        match *self {
            Self::Add { ref path, value } => {
                PatchOperation::Add(AddOperation { path: pointer(path), value: value.clone() })
            }
            Self::Remove { ref path } => {
                PatchOperation::Remove(RemoveOperation { path: pointer(path) })
            }
            Self::Replace { ref path, value } => PatchOperation::Replace(ReplaceOperation {
                path: pointer(path),
                value: value.clone(),
            }),
        }
    }
}

struct Writer<'a> {
    /// JSON pointer (RFC 6901) to the current value.
    path: String,
    operations: Vec<Operation<'a>>,
}

impl<'a> Writer<'a> {
    fn value(&mut self, present: &'a Value, change: &'a Change) {
        match (change, present) {
            (Change::Kept | Change::Removed(_), _) => {}
            (Change::Object(changes), Value::Object(members)) => {
                for (key, change) in changes {
                    let parent = self.path.len();
                    self.path.push('/');
                    push_escaped(&mut self.path, key);
                    self.member(members.get(key), change);
                    self.path.truncate(parent);
                }
            }
            (Change::List(change), Value::Array(items)) => self.list(items, change),
            (Change::Set(Some(before)), present) if before == present => {}
            (_, value) => {
                self.operations.push(Operation::Replace { path: self.path.clone(), value });
            }
        }
    }

    fn member(&mut self, present: Option<&'a Value>, change: &'a Change) {
        match (change, present) {
            (Change::Removed(_), _) => self.remove(),
            (Change::Set(None), Some(value)) => self.add(value),
            (change, Some(value)) => self.value(value, change),
            (_, None) => {}
        }
    }

    fn list(&mut self, items: &'a [Value], change: &'a ListChange) {
        let Some(origins) = change.origins() else {
            for (index, change) in change.items() {
                self.at(index, |writer| writer.value(&items[index], change));
            }
            return;
        };
        let stays = longest_ascending(origins);
        let stay = |index: &usize| stays[*index];
        let mut leave: Vec<_> = origins
            .iter()
            .zip(&stays)
            .filter_map(|(origin, stays)| origin.filter(|_| !stays))
            .collect();
        leave.extend(change.gone());
        leave.sort_unstable();
        for origin in leave.into_iter().rev() {
            self.at(origin, Self::remove);
        }
        for index in (0..items.len()).filter(|index| !stay(index)) {
            self.at(index, |writer| writer.add(&items[index]));
        }
        for (index, change) in change.items().filter(|(index, _)| stay(index)) {
            self.at(index, |writer| writer.value(&items[index], change));
        }
    }

    fn at(&mut self, index: usize, write: impl FnOnce(&mut Self)) {
        let parent = self.path.len();
        let _ = write!(self.path, "/{index}");
        write(self);
        self.path.truncate(parent);
    }

    fn add(&mut self, value: &'a Value) {
        self.operations.push(Operation::Add { path: self.path.clone(), value });
    }

    fn remove(&mut self) {
        self.operations.push(Operation::Remove { path: self.path.clone() });
    }
}

/// Appends a key as a reference token of a JSON pointer.
fn push_escaped(path: &mut String, key: &str) {
    let mut rest = key;
    while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'~' | b'/')) {
        path.push_str(&rest[..at]);
        path.push_str(if rest.as_bytes()[at] == b'~' { "~0" } else { "~1" });
        rest = &rest[at + 1..];
    }
    path.push_str(rest);
}

/// Marks a longest run of items with ascending previous indices. They stay; all others are removed
/// and added again.
fn longest_ascending(origins: &[Option<usize>]) -> Vec<bool> {
    // For each length, the end of the run of that length with the smallest last index.
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
    use crate::json::change::{Draft, PathStep};

    #[test]
    fn prepending_an_item_is_one_operation() {
        let mut draft = Draft::new(json!({"l": [{"n": 1}, {"n": 2}]}));
        draft.push(&["l".into()], json!({"n": 0}));
        draft.reorder(&["l".into()], &[2, 0, 1]);
        draft.set(&["l".into(), 2.into(), "m".into()], json!(true));
        let (after, change) = draft.finish();
        let patch = write(&after, &change);
        assert_eq!(
            serde_json::to_value(&patch).unwrap(),
            json!([
                {"op": "add", "path": "/l/0", "value": {"n": 0}},
                {"op": "add", "path": "/l/2/m", "value": true},
            ])
        );
    }

    #[test]
    fn patch_paths_are_escaped() {
        let mut draft = Draft::new(json!({"a": {}}));
        draft.set(&["a".into(), "x/y~z".into()], json!("v"));
        let (after, change) = draft.finish();
        let patch = write(&after, &change);
        assert_eq!(
            serde_json::to_value(&patch).unwrap(),
            json!([{"op": "add", "path": "/a/x~1y~0z", "value": "v"}])
        );
    }

    #[test]
    fn edits_within_a_value_are_recorded_at_its_path() {
        let mut draft = Draft::new(json!({"l": [{"a": 1, "b": 2}]}));
        draft.within(&["l".into(), 0.into()], |item| {
            item.remove(&[], "a");
            item.set(&["b".into()], json!(3));
        });
        draft.within(&["l".into(), 1.into()], |item| item.set(&["a".into()], json!(1)));
        let (after, change) = draft.finish();
        assert_eq!(after, json!({"l": [{"b": 3}]}));
        assert_eq!(
            serde_json::to_value(write(&after, &change)).unwrap(),
            json!([
                {"op": "remove", "path": "/l/0/a"},
                {"op": "replace", "path": "/l/0/b", "value": 3},
            ])
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
        let list: PathStep<'_> = "l".into();
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
                    let gone = BTreeMap::from([(i % len, items.remove(i % len))]);
                    let origins = (0..len).filter(|at| *at != i % len).map(Some).collect();
                    Ok(Change::member("l", Change::list(origins, gone, BTreeMap::new())))
                });
                result.unwrap();
            }
        }
    }

    /// Returns a value with these items before and after the edits.
    fn edited(items: &[u8], edits: &[Edit]) -> (Value, Draft) {
        let items: Vec<_> = items.iter().map(|v| json!({"a": v, "~": 1})).collect();
        let before = json!({"l": items});
        let mut draft = Draft::new(before.clone());
        for edit in edits {
            apply(&mut draft, edit);
        }
        (before, draft)
    }

    proptest! {
        #[test]
        fn patch_has_the_effect_of_the_edits(
            items in prop::collection::vec(any::<u8>(), 0..6),
            edits in edits(),
        ) {
            let (before, draft) = edited(&items, &edits);
            let (after, change) = draft.finish();
            let mut patched = before.clone();
            json_patch::patch(&mut patched, &write(&after, &change).owned()).unwrap();
            prop_assert_eq!(patched, after);
        }

        #[test]
        fn restored_value_makes_no_operation(
            items in prop::collection::vec(any::<u8>(), 0..6),
            edits in edits(),
        ) {
            let (before, mut draft) = edited(&items, &edits);
            draft.set(&["l".into()], Value::Null);
            draft.set(&["l".into()], before["l"].clone());
            let (after, change) = draft.finish();
            prop_assert_eq!(&after, &before);
            prop_assert!(write(&after, &change).is_empty(), "{:?}", write(&after, &change));
        }
    }
}
