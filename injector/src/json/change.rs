//! What was done to a value: a record beside the value itself.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};

/// What was done to a JSON value since some earlier state of it.
///
/// It keeps what was replaced or removed, and so says together with the present state all that a
/// patch needs: nobody has to keep a copy of the earlier state. What is [`Kept`](Self::Kept) is
/// never looked at.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Change {
    /// Nothing.
    #[default]
    Kept,
    /// It was added or replaced, whole; with what was there before, if anything was.
    Set(Option<Value>),
    /// It was removed; with what it was. Stands only under a key of an object.
    Removed(Value),
    /// Some members of an object; those not named were kept.
    Object(BTreeMap<String, Change>),
    /// Some items of a list.
    List(ListChange),
}

/// What was done to a list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ListChange {
    /// For each present item the index it had before, or `None` for a new one; absent when all
    /// items are the earlier ones in their order.
    origins: Option<Vec<Option<usize>>>,
    /// The items that were taken out, by the index they had before.
    gone: BTreeMap<usize, Value>,
    /// What was done to the items that were there before, by present index.
    items: BTreeMap<usize, Change>,
}

impl Change {
    /// The change that this one and a later one make together.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        match (self, later) {
            (earlier, Self::Kept) => earlier,
            (Self::Kept, later) => later,
            // What is below a value that was set or put anew is part of that value.
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

    /// Makes it the change that it and a later one make together.
    fn add(&mut self, later: Self) {
        *self = std::mem::take(self).then(later);
    }

    /// Makes the present value the earlier one again.
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

    /// Adds what was done at the end of a path.
    fn record(&mut self, path: &[Step<'_>], change: Self) {
        let Some((step, rest)) = path.split_first() else {
            return self.add(change);
        };
        if matches!((&*self, &change), (Self::Set(_), _) | (_, Self::Kept)) {
            return;
        }
        match step {
            Step::Key(key) => {
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
            Step::Index(index) => {
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

    /// The change of an object in which one member changed.
    pub fn member(key: impl Into<String>, change: Self) -> Self {
        match change {
            Self::Kept => Self::Kept,
            change => Self::Object(BTreeMap::from([(key.into(), change)])),
        }
    }

    /// The change of a list whose items come from the given earlier indices (`None`: new), with
    /// those that were taken out, by earlier index, and with what was done to those that stayed,
    /// by present index.
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
    /// For each present item the index it had before (`None`: new); `None` when all items are
    /// the earlier ones in their order.
    pub fn origins(&self) -> Option<&[Option<usize>]> {
        self.origins.as_deref()
    }

    /// The earlier indices of the items that were taken out, ascending.
    pub fn gone(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.gone.keys().copied()
    }

    /// What was done to the items that were there before, by present index, ascending.
    pub fn items(&self) -> impl Iterator<Item = (usize, &Change)> {
        self.items.iter().map(|(index, change)| (*index, change))
    }

    /// Forgets what was done to the items for which `stays` says no; it may change the others'
    /// record, and is given their present index.
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

    /// Makes the present items the earlier ones again.
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

    /// The index that a present item had before; `None` for a new one.
    fn origin(&self, index: usize) -> Option<usize> {
        self.origins.as_ref().map_or(Some(index), |origins| origins[index])
    }
}

/// A value that is worked on, with the record of what was done to it.
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

    /// The value as it is now.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// What is at the end of a path.
    pub fn at(&self, path: &[Step<'_>]) -> Option<&Value> {
        path.iter().try_fold(&self.value, |value, step| match step {
            Step::Index(index) => value.get(index),
            Step::Key(key) => value.get(key),
        })
    }

    /// The value and what was done to it since the start.
    pub fn finish(self) -> (Value, Change) {
        (self.value, self.change)
    }

    /// Lets a function change the value; it returns what it did.
    pub fn edit<E>(&mut self, edit: impl FnOnce(&mut Value) -> Result<Change, E>) -> Result<(), E> {
        let change = edit(&mut self.value)?;
        self.change.add(change);
        Ok(())
    }

    /// Works on what is at the end of a path by itself, if it is there: for several changes the way
    /// is gone once.
    pub fn within(&mut self, path: &[Step<'_>], work: impl FnOnce(&mut Self)) {
        let inner = path.iter().try_fold(&mut self.value, |value, step| step.of_mut(value));
        let Some(inner) = inner else { return };
        let mut draft = Self::new(std::mem::take(inner));
        work(&mut draft);
        *inner = draft.value;
        self.change.record(path, draft.change);
    }

    /// Sets the value at a path. Objects on the way are made where they are missing; an item of a
    /// list must be there.
    pub fn set(&mut self, path: &[Step<'_>], value: Value) {
        if let Some((steps, before)) = set(&mut self.value, path, value) {
            self.change.record(&path[..steps], Change::Set(before));
        }
    }

    /// Removes the member of an object, if it is there.
    pub fn remove(&mut self, path: &[Step<'_>], key: &str) {
        let parent = path.iter().try_fold(&mut self.value, |value, step| step.of_mut(value));
        let removed = parent.and_then(Value::as_object_mut).and_then(|parent| parent.remove(key));
        if let Some(removed) = removed {
            self.change.record(path, Change::member(key, Change::Removed(removed)));
        }
    }

    /// Puts the items of a list into another order: for each place the present index of the item
    /// that goes there, every index once.
    pub fn reorder(&mut self, path: &[Step<'_>], order: &[usize]) {
        let list = path.iter().try_fold(&mut self.value, |value, step| step.of_mut(value));
        let Some(list) = list.and_then(Value::as_array_mut) else {
            return;
        };
        let mut items: Vec<_> = std::mem::take(list);
        list.extend(order.iter().map(|index| std::mem::take(&mut items[*index])));
        let origins = order.iter().copied().map(Some).collect();
        self.change.record(path, Change::list(origins, BTreeMap::new(), BTreeMap::new()));
    }

    /// Appends an item to a list, which is made where it is missing.
    pub fn push(&mut self, path: &[Step<'_>], item: Value) {
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

/// One step of the way into a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step<'a> {
    /// To the item of a list.
    Index(usize),
    /// To the member of an object.
    Key(&'a str),
}

impl<'a> From<&'a str> for Step<'a> {
    fn from(key: &'a str) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for Step<'_> {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

impl Step<'_> {
    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        match self {
            Self::Index(index) => value.get_mut(index),
            Self::Key(key) => value.get_mut(key),
        }
    }
}

/// Sets what is at the end of a path; the number of steps to what is new, if anything is, and what
/// was there before.
fn set(target: &mut Value, path: &[Step<'_>], value: Value) -> Option<(usize, Option<Value>)> {
    let Some((step, rest)) = path.split_first() else {
        let changes = *target != value;
        return changes.then(|| (0, Some(std::mem::replace(target, value))));
    };
    if let Some(inner) = step.of_mut(target).filter(|inner| !inner.is_null() || rest.is_empty()) {
        return set(inner, rest, value).map(|(steps, before)| (steps + 1, before));
    }
    let Step::Key(key) = step else {
        return None;
    };
    let mut made = value;
    for step in rest.iter().rev() {
        let Step::Key(key) = step else {
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
