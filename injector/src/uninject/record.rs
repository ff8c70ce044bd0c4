//! Record of what an injected pod does not show: the values before injection that uninjection would
//! otherwise get wrong.
//!
//! The annotation is a JSON object. A key is the path of a value, as a JSON pointer in which a name
//! stands for an item of a list: `/spec/containers/web/readinessProbe/httpGet/port`. The value is a
//! list of two: what uninjection finds without the record, and what was there before injection;
//! null for nothing. An entry applies only if the first value is still there, so a field that was
//! edited since stays as it is. A last step `-` is the order of a list, by the names of its items.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::original::Original;
use super::outline::outline;
use super::{Origin, unrecorded};
use crate::inject::limits;
use crate::json::change::Change;
use crate::json::short;
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, annotation};
use crate::settings::annotations::key;

/// Values before injection, by their paths.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Record(BTreeMap<String, [Value; 2]>);

/// Returns the record of an injection, for the annotation of the injected pod. `None` if
/// uninjection needs none, or the record would be too large.
///
/// `name` is that of the workload, as uninjection will know it.
pub(crate) fn record(injected: &Value, change: &Change, name: &str) -> Option<String> {
    let original = Original::new(injected, change);
    if let Some(outline) = outline(injected, change) {
        let entries = entries(original, injected, outline, name)?;
        // An outline has only a part of each container and volume.
        if !entries.keys().any(|path| holds_items(path)) {
            return written(&entries, injected);
        }
    }
    if !limits::is_small(injected) {
        return None;
    }
    written(&entries(original, injected, injected.clone(), name)?, injected)
}

/// Returns the record for this pod before injection, as [`record`] does.
pub(crate) fn record_of(original: &Value, injected: &Value, name: &str) -> Option<String> {
    let entries = entries(Original::Value(original), injected, injected.clone(), name)?;
    written(&entries, injected)
}

/// Returns the differences from the original that uninjection without a record would leave, by
/// their paths. They are empty if it would only leave doubts, and `None` if neither.
///
/// `copy` is the injected pod, or its outline.
fn entries(
    original: Original<'_>,
    injected: &Value,
    copy: Value,
    name: &str,
) -> Option<BTreeMap<String, Value>> {
    let origin = Origin::from_workload(name, &Value::Null);
    let found = unrecorded(injected, copy, &origin).ok()??;
    let mut entries = BTreeMap::new();
    collect(&mut String::new(), &found.pod, original, &mut entries);
    (!entries.is_empty() || !found.doubts.is_empty()).then_some(entries)
}

/// True if the value at this path has whole containers or volumes.
fn holds_items(path: &str) -> bool {
    let mut steps = path.split('/').skip(1);
    let lists = [CONTAINERS, INIT_CONTAINERS, VOLUMES];
    let is_below = steps.next().is_none_or(|step| step == "spec")
        && steps.next().is_none_or(|step| lists.contains(&step));
    is_below && !path.ends_with(ORDER) && steps.nth(1).is_none()
}

fn written(entries: &BTreeMap<String, Value>, injected: &Value) -> Option<String> {
    let text = serde_json::to_string(entries).ok()?;
    let fits = text.len() <= MOST_BYTES && limits::has_room_for(injected, text.len());
    fits.then_some(text)
}

impl Record {
    /// Returns the record of an injected pod; `None` without one, and for text that is none.
    pub(super) fn from_pod(injected: &Value) -> Option<Self> {
        short::parse(annotation(injected, key::ORIGINAL)?).map(Self)
    }

    /// Puts the recorded values into a pod without its injection.
    pub(super) fn apply(self, pod: &mut Value) {
        let is_order = |path: &str| path.ends_with(ORDER);
        let (orders, values): (Vec<_>, Vec<_>) =
            self.0.into_iter().partition(|(path, _)| is_order(path));
        for (path, [from, to]) in values {
            let steps: Vec<_> = path.split('/').skip(1).map(unescaped).collect();
            if let Some((last, steps)) = steps.split_last() {
                put(pod, steps, last, &from, to);
            }
        }
        for (path, [from, to]) in orders {
            let list = path.strip_suffix(ORDER).unwrap_or_default();
            let steps = list.split('/').skip(1).map(unescaped);
            let list = steps.into_iter().try_fold(&mut *pod, |value, step| child(value, &step));
            if let Some(Value::Array(items)) = list {
                reorder(items, &from, &to);
            }
        }
    }
}

/// Collects the differences between the found and the original value.
fn collect(
    path: &mut String,
    found: &Value,
    original: Original<'_>,
    entries: &mut BTreeMap<String, Value>,
) {
    match (found, original) {
        (Value::Object(members), original) if original.is_object() => {
            let missing = original.keys().filter(|key| !members.contains_key(*key));
            // A null stands for what the outline left out.
            let present = members.iter().filter(|(_, value)| !value.is_null());
            let present = present.map(|(key, found)| (key.as_str(), found));
            for (key, found) in present.chain(missing.map(|key| (key, &Value::Null))) {
                collect_below(path, key, found, original.member(key), entries);
            }
        }
        (Value::Array(items), original) => match original.items() {
            Some(originals) => collect_items(path, items, &originals, original, entries),
            None => insert(path, found, original, entries),
        },
        (found, original) => insert(path, found, original, entries),
    }
}

/// Collects the differences between the items of two lists, by their names.
fn collect_items(
    path: &mut String,
    items: &[Value],
    originals: &[Original<'_>],
    original: Original<'_>,
    entries: &mut BTreeMap<String, Value>,
) {
    let found: Vec<_> = items.iter().map(Original::Value).collect();
    let (Some(present), Some(own)) = (by_name(&found), by_name(originals)) else {
        let found = Value::Array(items.to_vec());
        return insert(path, &found, original, entries);
    };
    let name_of = |item: &Original<'_>| item.name().unwrap_or_default().to_owned();
    let kept = found.iter().map(name_of).filter(|name| own.contains_key(&**name));
    let added = originals.iter().map(name_of).filter(|name| !present.contains_key(&**name));
    let mut added: Vec<_> = added.collect();
    // Added items come last, in the order of their entries.
    added.sort_by_key(|name| escaped(name));
    let order: Vec<_> = kept.chain(added.iter().cloned()).collect();
    for item in items {
        let name = item["name"].as_str().unwrap_or_default();
        let original = own.get(name).copied().unwrap_or(Original::ABSENT);
        collect_below(path, name, item, original, entries);
    }
    for name in &added {
        collect_below(path, name, &Value::Null, own[&**name], entries);
    }
    let own: Vec<_> = originals.iter().map(name_of).collect();
    if order != own {
        entries.insert(format!("{path}{ORDER}"), json!([order, own]));
    }
}

/// Collects the differences between two values one step below the path.
fn collect_below(
    path: &mut String,
    step: &str,
    found: &Value,
    original: Original<'_>,
    entries: &mut BTreeMap<String, Value>,
) {
    if matches!(original, Original::Value(original) if found == original) {
        return;
    }
    let length = path.len();
    path.push('/');
    path.push_str(&escaped(step));
    collect(path, found, original, entries);
    path.truncate(length);
}

fn insert(
    path: &str,
    found: &Value,
    original: Original<'_>,
    entries: &mut BTreeMap<String, Value>,
) {
    entries.insert(path.to_owned(), json!([found, original.to_value()]));
}

/// Returns items by their names; `None` unless each has one of its own.
fn by_name<'v>(items: &[Original<'v>]) -> Option<BTreeMap<&'v str, Original<'v>>> {
    let named: Option<BTreeMap<_, _>> =
        items.iter().map(|item| Some((item.name()?, *item))).collect();
    named.filter(|named| named.len() == items.len())
}

/// Replaces a value by the original one, if it is the expected one.
fn put(pod: &mut Value, steps: &[String], last: &str, from: &Value, to: Value) {
    let Some(parent) = steps.iter().try_fold(pod, |value, step| child(value, step)) else { return };
    match parent {
        Value::Object(members) => {
            if members.get(last).unwrap_or(&Value::Null) != from {
                return;
            }
            match to {
                Value::Null => members.remove(last),
                to => members.insert(last.to_owned(), to),
            };
        }
        Value::Array(items) => {
            let place = items.iter().position(|item| item["name"] == *last);
            match (place, to) {
                (None, to) if from.is_null() && !to.is_null() => items.push(to),
                (Some(place), Value::Null) if items[place] == *from => {
                    items.remove(place);
                }
                (Some(place), to) if items[place] == *from => items[place] = to,
                _ => {}
            }
        }
        _ => {}
    }
}

/// Returns the member of an object, or the item of a list by its name.
fn child<'v>(value: &'v mut Value, step: &str) -> Option<&'v mut Value> {
    match value {
        Value::Array(items) => items.iter_mut().find(|item| item["name"] == *step),
        value => value.get_mut(step),
    }
}

/// Orders the items of a list by their names, if they are still in the expected order.
fn reorder(items: &mut [Value], from: &Value, to: &Value) {
    let present: Value = items.iter().map(|item| item["name"].clone()).collect();
    if present != *from {
        return;
    }
    let place = |item: &Value| {
        let names = to.as_array().map_or(&[][..], Vec::as_slice);
        names.iter().position(|name| *name == item["name"])
    };
    items.sort_by_key(place);
}

fn escaped(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

const VOLUMES: &str = "volumes";

/// Last step of the path of a list's order. No object of Kubernetes has this name.
const ORDER: &str = "/-";

/// Most bytes of a record. Without one, uninjection warns of the fields in doubt.
const MOST_BYTES: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kubernetes::merge::without_nulls_and_directives;

    fn applied(found: &Value, original: &Value) -> Value {
        let mut entries = BTreeMap::new();
        collect(&mut String::new(), found, Original::Value(original), &mut entries);
        let text = serde_json::to_string(&entries).unwrap();
        let mut pod = found.clone();
        Record(serde_json::from_str(&text).unwrap()).apply(&mut pod);
        pod
    }

    #[test]
    fn edited_field_stays() {
        let entries =
            r#"{"/a/b~1c": [1, "x"], "/l/i/p": [null, {}], "/l/-": [["i","j"],["j","i"]]}"#;
        let record = || Record(serde_json::from_str(entries).unwrap());
        let mut pod = json!({"a": {"b/c": 1}, "l": [{"name": "i"}, {"name": "j"}]});
        record().apply(&mut pod);
        let expected = json!({"a": {"b/c": "x"}, "l": [{"name": "j"}, {"name": "i", "p": {}}]});
        assert_eq!(pod, expected);
        let edited = json!({"a": {"b/c": 2}, "l": [{"name": "j"}]});
        let mut pod = edited.clone();
        record().apply(&mut pod);
        assert_eq!(pod, edited);
    }

    proptest! {
        #[test]
        fn recorded_values_come_back(found in value(), original in value()) {
            // The root of a pod is an object, before and after.
            let [found, original] = [found, original].map(|value| json!({"pod": value}));
            // A member that is null counts as absent. There are no directives.
            let without_nulls = without_nulls_and_directives;
            prop_assert_eq!(without_nulls(applied(&found, &original)), without_nulls(original));
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(1)), Just(json!("x")), Just(json!({})), Just(json!([]))];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let named =
                ("[abc]", inner.clone()).prop_map(|(name, x)| json!({"name": name, "x": x}));
            prop_oneof![
                prop::collection::vec(named, 0..4).prop_map(Value::from),
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[ab/~]", inner, 0..3)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }
}
