//! Record of the changes to a JSON value, kept beside the value.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};

/// Changes to a JSON value since an earlier state.
///
/// It keeps the replaced and removed values. Together with the present value it is all that a patch
/// needs, so no caller has to keep a copy of the earlier state. A part that is [`Kept`](Self::Kept)
/// is never read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Change {
    /// No change.
    #[default]
    Kept,
    /// The whole value was added or replaced; holds the previous value, if there was one.
    Set(Option<Value>),
    /// The value was removed; holds the previous value. Occurs only under a key of an object.
    Removed(Value),
    /// Changes to members of an object; members not named here were kept.
    Object(BTreeMap<String, Change>),
    /// Changes to items of a list.
    List(ListChange),
}

/// Changes to a list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ListChange {
    /// The previous index of each present item, or `None` for a new item. Absent if all items are
    /// the previous ones in the same order.
    origins: Option<Vec<Option<usize>>>,
    /// Removed items by their previous index.
    gone: BTreeMap<usize, Value>,
    /// Changes to items that existed before, by present index.
    items: BTreeMap<usize, Change>,
}

impl Change {
    /// Combines this change with a later one.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        match (self, later) {
            (earlier, Self::Kept) => earlier,
            (Self::Kept, later) => later,
            // Changes below a value that was set or added are part of that value.
            (Self::Set(before), Self::Set(_) | Self::Object(_) | Self::List(_)) => {
                Self::Set(before)
            }
            (Self::Set(None), Self::Removed(_)) => Self::Kept,
            (Self::Set(Some(before)), Self::Removed(_)) => Self::Removed(before),
            (Self::Removed(before), Self::Set(_)) => Self::Set(Some(before)),
            (Self::Object(mut members), Self::Object(later)) => {
                for (key, change) in later {
                    match members.entry(key) {
                        Entry::Occupied(mut member) => member.get_mut().add(change),
                        Entry::Vacant(place) => {
                            place.insert(change);
                        }
                    }
                }
                Self::Object(members)
            }
            (Self::List(earlier), Self::List(later)) => Self::List(earlier.then(later)),
            (earlier, Self::Set(Some(mut value))) => {
                earlier.undo(&mut value);
                Self::Set(Some(value))
            }
            (earlier, Self::Removed(mut value)) => {
                earlier.undo(&mut value);
                Self::Removed(value)
            }
            (_, later) => later,
        }
    }

    /// Combines this change with a later one, in place.
    fn add(&mut self, later: Self) {
        *self = std::mem::take(self).then(later);
    }

    /// Restores the earlier state of the value.
    fn undo(self, value: &mut Value) {
        match (self, value) {
            (Self::Set(Some(before)) | Self::Removed(before), value) => *value = before,
            (Self::Object(changes), Value::Object(members)) => {
                for (key, change) in changes {
                    match change {
                        Self::Set(None) => {
                            members.remove(&key);
                        }
                        Self::Set(Some(before)) | Self::Removed(before) => {
                            members.insert(key, before);
                        }
                        change => {
                            if let Some(member) = members.get_mut(&key) {
                                change.undo(member);
                            }
                        }
                    }
                }
            }
            (Self::List(change), Value::Array(items)) => change.undo(items),
            _ => {}
        }
    }

    /// Returns the earlier state of a value; `None` if there was none.
    pub(crate) fn before(&self, after: &Value) -> Option<Value> {
        Some(match (self, after) {
            (Self::Set(before), _) => return before.clone(),
            (Self::Removed(before), _) => before.clone(),
            (Self::Object(changes), Value::Object(members)) => {
                let present = members.iter().filter_map(|(key, value)| {
                    let before = match changes.get(key) {
                        Some(change) => change.before(value)?,
                        None => value.clone(),
                    };
                    Some((key.clone(), before))
                });
                let removed = changes.iter().filter_map(|(key, change)| match change {
                    Self::Removed(before) => Some((key.clone(), before.clone())),
                    _ => None,
                });
                Value::Object(present.chain(removed).collect())
            }
            (Self::List(change), Value::Array(items)) => change.before(items),
            (_, after) => after.clone(),
        })
    }

    /// Adds a change at the end of a path.
    fn record(&mut self, path: &[PathStep<'_>], change: Self) {
        let Some((step, rest)) = path.split_first() else {
            return self.add(change);
        };
        if matches!((&*self, &change), (Self::Set(_), _) | (_, Self::Kept)) {
            return;
        }
        match step {
            PathStep::Key(key) => {
                if !matches!(self, Self::Object(_)) {
                    *self = Self::Object(BTreeMap::new());
                }
                let Self::Object(members) = self else { return };
                if let Some(member) = members.get_mut(*key) {
                    member.record(rest, change);
                } else {
                    members.entry((*key).to_owned()).or_default().record(rest, change);
                }
            }
            PathStep::Index(index) => {
                if !matches!(self, Self::List(_)) {
                    *self = Self::List(ListChange::default());
                }
                let Self::List(list) = self else { return };
                if list.origin(*index).is_some() {
                    list.items.entry(*index).or_default().record(rest, change);
                }
            }
        }
    }

    /// Returns the change of an object with one changed member.
    pub fn member(key: impl Into<String>, change: Self) -> Self {
        match change {
            Self::Kept => Self::Kept,
            change => Self::Object(BTreeMap::from([(key.into(), change)])),
        }
    }

    /// Returns the change of a list.
    ///
    /// `origins` has the previous index of each item (`None`: new), `gone` the removed items by
    /// previous index, and `items` the changes to kept items by present index.
    pub fn list(
        origins: Vec<Option<usize>>,
        gone: BTreeMap<usize, Value>,
        items: BTreeMap<usize, Self>,
    ) -> Self {
        let in_place = gone.is_empty()
            && origins.iter().enumerate().all(|(index, origin)| *origin == Some(index));
        let items: BTreeMap<_, _> =
            items.into_iter().filter(|(_, change)| *change != Self::Kept).collect();
        match (in_place, items.is_empty()) {
            (true, true) => Self::Kept,
            (true, false) => Self::List(ListChange { origins: None, gone, items }),
            (false, _) => Self::List(ListChange { origins: Some(origins), gone, items }),
        }
    }
}

impl ListChange {
    /// Returns the previous index of each present item (`None`: new), or `None` if all items are
    /// the previous ones in the same order.
    pub fn origins(&self) -> Option<&[Option<usize>]> {
        self.origins.as_deref()
    }

    /// Returns the previous indices of the removed items, ascending.
    pub fn gone(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.gone.keys().copied()
    }

    /// Returns the removed items by their previous index.
    pub(crate) fn gone_items(&self) -> impl Iterator<Item = (usize, &Value)> {
        self.gone.iter().map(|(index, item)| (*index, item))
    }

    /// Returns the change to the item at a present index, if it existed before.
    pub(crate) fn item(&self, index: usize) -> &Change {
        self.items.get(&index).unwrap_or(&Change::Kept)
    }

    /// Returns the changes to items that existed before, by present index, ascending.
    pub fn items(&self) -> impl Iterator<Item = (usize, &Change)> {
        self.items.iter().map(|(index, change)| (*index, change))
    }

    /// Removes the changes to items for which `stays` returns false. `stays` gets the present index
    /// of an item and may modify its change.
    pub(crate) fn retain_items(&mut self, mut stays: impl FnMut(usize, &mut Change) -> bool) {
        self.items.retain(|index, change| stays(*index, change));
    }

    fn then(mut self, mut later: Self) -> Self {
        let Some(moves) = later.origins else {
            for (index, change) in later.items {
                if self.origin(index).is_some() {
                    self.items.entry(index).or_default().add(change);
                }
            }
            return self;
        };
        for (between, mut item) in later.gone {
            if let Some(origin) = self.origin(between) {
                self.items.remove(&between).unwrap_or_default().undo(&mut item);
                self.gone.insert(origin, item);
            }
        }
        let mut items = BTreeMap::new();
        for (index, between) in moves.iter().enumerate() {
            let Some(between) = between.filter(|between| self.origin(*between).is_some()) else {
                continue;
            };
            let earlier = self.items.remove(&between).unwrap_or_default();
            let change = earlier.then(later.items.remove(&index).unwrap_or_default());
            if change != Change::Kept {
                items.insert(index, change);
            }
        }
        let origins =
            moves.into_iter().map(|between| between.and_then(|index| self.origin(index))).collect();
        Self { origins: Some(origins), gone: self.gone, items }
    }

    /// Restores the earlier state of the items.
    pub(crate) fn undo(self, items: &mut Vec<Value>) {
        for (index, change) in self.items {
            if let Some(item) = items.get_mut(index) {
                change.undo(item);
            }
        }
        if let Some(origins) = self.origins {
            let mut before = self.gone;
            let present = origins.into_iter().zip(std::mem::take(items));
            before.extend(present.filter_map(|(origin, item)| Some((origin?, item))));
            *items = before.into_values().collect();
        }
    }

    /// Returns the earlier state of the items.
    fn before(&self, items: &[Value]) -> Value {
        let mut before = self.gone.clone();
        before.extend(items.iter().enumerate().filter_map(|(index, item)| {
            Some((self.origin(index)?, self.item(index).before(item)?))
        }));
        before.into_values().collect()
    }

    /// Returns the previous index of a present item; `None` for a new one.
    pub(crate) fn origin(&self, index: usize) -> Option<usize> {
        self.origins.as_ref().map_or(Some(index), |origins| origins[index])
    }
}

/// Value under modification, with the record of its changes.
#[derive(Clone, Debug)]
pub struct Draft {
    value: Value,
    change: Change,
}

impl Draft {
    /// Starts from a value.
    pub fn new(value: Value) -> Self {
        Self { value, change: Change::Kept }
    }

    /// Returns the present value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the value at the end of a path.
    pub fn at(&self, path: &[PathStep<'_>]) -> Option<&Value> {
        path.iter().try_fold(&self.value, |value, step| match step {
            PathStep::Index(index) => value.get(index),
            PathStep::Key(key) => value.get(key),
        })
    }

    /// Returns the value and its changes since the start.
    pub fn finish(self) -> (Value, Change) {
        (self.value, self.change)
    }

    /// Applies a function that changes the value and returns the change.
    pub fn edit<E>(&mut self, edit: impl FnOnce(&mut Value) -> Result<Change, E>) -> Result<(), E> {
        let change = edit(&mut self.value)?;
        self.change.add(change);
        Ok(())
    }

    /// Edits the value at the end of a path as a draft of its own, if it exists. Several edits then
    /// resolve the path only once.
    pub fn within(&mut self, path: &[PathStep<'_>], work: impl FnOnce(&mut Self)) {
        let inner = path.iter().try_fold(&mut self.value, |value, step| step.of_mut(value));
        let Some(inner) = inner else { return };
        let mut draft = Self::new(std::mem::take(inner));
        work(&mut draft);
        *inner = draft.value;
        self.change.record(path, draft.change);
    }

    /// Sets the value at a path. Creates missing objects on the path; an item of a list must exist.
    pub fn set(&mut self, path: &[PathStep<'_>], value: Value) {
        if let Some((steps, before)) = set(&mut self.value, path, value) {
            self.change.record(&path[..steps], Change::Set(before));
        }
    }

    /// Removes the member of an object, if it exists.
    pub fn remove(&mut self, path: &[PathStep<'_>], key: &str) {
        let parent = path.iter().try_fold(&mut self.value, |value, step| step.of_mut(value));
        let removed = parent.and_then(Value::as_object_mut).and_then(|parent| parent.remove(key));
        if let Some(removed) = removed {
            self.change.record(path, Change::member(key, Change::Removed(removed)));
        }
    }

    /// Reorders the items of a list. `order` has for each new position the present index of its
    /// item, every index once.
    pub fn reorder(&mut self, path: &[PathStep<'_>], order: &[usize]) {
        let list = path.iter().try_fold(&mut self.value, |value, step| step.of_mut(value));
        let Some(list) = list.and_then(Value::as_array_mut) else {
            return;
        };
        let mut items: Vec<_> = std::mem::take(list);
        list.extend(order.iter().map(|index| std::mem::take(&mut items[*index])));
        let origins = order.iter().copied().map(Some).collect();
        self.change.record(path, Change::list(origins, BTreeMap::new(), BTreeMap::new()));
    }

    /// Appends an item to a list; creates a missing list.
    pub fn push(&mut self, path: &[PathStep<'_>], item: Value) {
        let list = path.iter().try_fold(&mut self.value, |value, step| step.of_mut(value));
        let Some(list) = list.and_then(Value::as_array_mut) else {
            return self.set(path, Value::Array(vec![item]));
        };
        let before = list.len();
        list.push(item);
        let origins = (0..before).map(Some).chain([None]).collect();
        self.change.record(path, Change::list(origins, BTreeMap::new(), BTreeMap::new()));
    }
}

/// One step of a path into a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PathStep<'a> {
    /// Index of an item in a list.
    Index(usize),
    /// Key of a member of an object.
    Key(&'a str),
}

impl<'a> From<&'a str> for PathStep<'a> {
    fn from(key: &'a str) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for PathStep<'_> {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

impl PathStep<'_> {
    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        match self {
            Self::Index(index) => value.get_mut(index),
            Self::Key(key) => value.get_mut(key),
        }
    }
}

/// Sets the value at the end of a path. Returns the number of steps to the new or replaced value
/// and the previous value, or `None` if nothing changed.
fn set(target: &mut Value, path: &[PathStep<'_>], value: Value) -> Option<(usize, Option<Value>)> {
    let Some((step, rest)) = path.split_first() else {
        let changes = *target != value;
        return changes.then(|| (0, Some(std::mem::replace(target, value))));
    };
    if let Some(inner) = step.of_mut(target).filter(|inner| !inner.is_null() || rest.is_empty()) {
        return set(inner, rest, value).map(|(steps, before)| (steps + 1, before));
    }
    let PathStep::Key(key) = step else {
        return None;
    };
    let mut made = value;
    for step in rest.iter().rev() {
        let PathStep::Key(key) = step else {
            return None;
        };
        made = Value::Object(Map::from_iter([((*key).to_owned(), made)]));
    }
    match target {
        Value::Object(members) => Some((1, members.insert((*key).to_owned(), made))),
        other => {
            let made = Value::Object(Map::from_iter([((*key).to_owned(), made)]));
            Some((0, Some(std::mem::replace(other, made))))
        }
    }
}
