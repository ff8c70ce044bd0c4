//! Lists that are merged by the value of a key of their items.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::atomic_list::replace;
use super::{Directive, MergeError, directive, merge_object, without_nulls_and_directives};
use crate::json::change::Change;

/// Merges lists of objects by key. New items come before items that only the original has. Items
/// that both have keep the original's order among themselves and relative to those.
pub(super) fn merge(
    original: &mut Vec<Value>,
    patch: Vec<Value>,
    field: &str,
    key: &'static str,
) -> Result<Change, MergeError> {
    let no_key = || MergeError::NoMergeKey { field: field.to_owned(), key };
    let mut items = Vec::with_capacity(patch.len());
    let mut deleted = HashSet::new();
    let mut replaced = false;
    for item in patch {
        let Value::Object(mut item) = item else {
            return Err(no_key());
        };
        match directive(&mut item, field)? {
            Some(Directive::Replace) => replaced = true,
            Some(Directive::Delete) => {
                deleted.insert(item.remove(key).ok_or_else(no_key)?);
            }
            None if item.contains_key(key) => items.push(item),
            None => return Err(no_key()),
        }
    }
    if replaced {
        let items =
            items.into_iter().map(Value::Object).map(without_nulls_and_directives).collect();
        return Ok(replace(original, items));
    }

    // The original's items with their original index. The overlay is merged over them.
    let mut gone = BTreeMap::new();
    let mut present = Vec::with_capacity(original.len());
    for (origin, value) in std::mem::take(original).into_iter().enumerate() {
        if value.get(key).is_some_and(|key| deleted.contains(key)) {
            gone.insert(origin, value);
        } else {
            present.push(Merged { value, origin: Some(origin), change: Change::Kept });
        }
    }
    // Indexes of the overlay's items in the original. Items that only the original has, which may
    // be thousands, are not indexed.
    let mut places: HashMap<Value, Vec<usize>> =
        items.iter().map(|item| (item[key].clone(), Vec::new())).collect();
    for (place, item) in present.iter().enumerate() {
        if let Some(places) = item.value.get(key).and_then(|value| places.get_mut(value)) {
            places.push(place);
        }
    }
    let mut touched = vec![false; present.len()];
    let mut overlay = Vec::with_capacity(items.len());
    for item in items {
        // If both have a key twice, the second item is merged over the second. An overlay that sets
        // a variable twice in its environment then changes nothing on reinjection.
        let place = places.get(&item[key]).and_then(|places| {
            let free = places.iter().find(|place| touched.get(**place) == Some(&false));
            free.or(places.last()).copied()
        });
        match place {
            Some(place) if place < touched.len() => {
                let merged = &mut present[place];
                let change = match &mut merged.value {
                    Value::Object(value) => merge_object(value, item, field)?,
                    _ => return Err(no_key()),
                };
                merged.change = std::mem::take(&mut merged.change).then(change);
                if !std::mem::replace(&mut touched[place], true) {
                    overlay.push(Source::Present(place));
                }
            }
            // The overlay itself has two items with this key: the second is merged over the first.
            Some(place) => {
                if let Some(Source::New(Value::Object(first))) =
                    overlay.get_mut(place - touched.len())
                {
                    merge_object(first, item, field)?;
                }
            }
            None => {
                if let Some(places) = places.get_mut(&item[key]) {
                    places.push(touched.len() + overlay.len());
                }
                overlay.push(Source::New(without_nulls_and_directives(Value::Object(item))));
            }
        }
    }
    Ok(interleave(original, present, &touched, overlay, gone))
}

struct Merged {
    value: Value,
    origin: Option<usize>,
    change: Change,
}

enum Source {
    New(Value),
    Present(usize),
}

/// Orders the items as Kubernetes does, and records the origin of each.
fn interleave(
    original: &mut Vec<Value>,
    present: Vec<Merged>,
    touched: &[bool],
    overlay: Vec<Source>,
    gone: BTreeMap<usize, Value>,
) -> Change {
    let mut present: Vec<Option<Merged>> = present.into_iter().map(Some).collect();
    let mut only_original = (0..touched.len()).filter(|place| !touched[*place]).peekable();
    let mut order: Vec<Merged> = Vec::with_capacity(present.len() + overlay.len());
    for item in overlay {
        match item {
            Source::New(value) => {
                order.push(Merged { value, origin: None, change: Change::Kept });
            }
            Source::Present(place) => {
                while let Some(earlier) = only_original.next_if(|earlier| *earlier < place) {
                    order.extend(present[earlier].take());
                }
                order.extend(present[place].take());
            }
        }
    }
    for place in only_original {
        order.extend(present[place].take());
    }
    let mut origins = Vec::with_capacity(order.len());
    let mut items = BTreeMap::new();
    for (index, item) in order.into_iter().enumerate() {
        origins.push(item.origin);
        if item.change != Change::Kept {
            items.insert(index, item.change);
        }
        original.push(item.value);
    }
    Change::list(origins, gone, items)
}
