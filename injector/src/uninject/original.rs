//! Values before injection, read from the injected pod and its changes without a copy.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::json::change::Change;

/// A value before injection.
#[derive(Clone, Copy)]
pub(super) enum Original<'v> {
    /// The value itself; null for none.
    Value(&'v Value),
    /// An object or list whose parts have changed.
    Changed {
        /// The object or list after injection.
        after: &'v Value,
        /// The change of its members or items.
        change: &'v Change,
    },
}

impl<'v> Original<'v> {
    /// No value.
    pub(super) const ABSENT: Self = Self::Value(&Value::Null);

    /// Returns the value that a change led to `after`.
    pub(super) fn new(after: &'v Value, change: &'v Change) -> Self {
        match change {
            Change::Kept => Self::Value(after),
            Change::Set(before) => Self::Value(before.as_ref().unwrap_or(&Value::Null)),
            Change::Removed(before) => Self::Value(before),
            Change::Object(_) | Change::List(_) => Self::Changed { after, change },
        }
    }

    pub(super) fn is_object(self) -> bool {
        match self {
            Self::Value(value) => value.is_object(),
            Self::Changed { change, .. } => matches!(change, Change::Object(_)),
        }
    }

    /// Returns the keys of an object, and of members that injection added to it.
    pub(super) fn keys(self) -> impl Iterator<Item = &'v str> {
        let (present, changes) = match self {
            Self::Value(value) => (value.as_object(), None),
            Self::Changed { after, change: Change::Object(changes) } => {
                (after.as_object(), Some(changes))
            }
            Self::Changed { .. } => (None, None),
        };
        let removed = changes.into_iter().flatten();
        let removed = removed.filter(|(_, change)| matches!(change, Change::Removed(_)));
        let present = present.into_iter().flat_map(|members| members.keys());
        present.chain(removed.map(|(key, _)| key)).map(String::as_str)
    }

    pub(super) fn member(self, key: &str) -> Self {
        let (value, change) = match self {
            Self::Value(value) => (value, None),
            Self::Changed { after, change: Change::Object(changes) } => (after, changes.get(key)),
            Self::Changed { .. } => return Self::ABSENT,
        };
        Self::new(value.get(key).unwrap_or(&Value::Null), change.unwrap_or(&Change::Kept))
    }

    /// Returns the items of a list.
    pub(super) fn items(self) -> Option<Vec<Self>> {
        match self {
            Self::Value(value) => Some(value.as_array()?.iter().map(Self::Value).collect()),
            Self::Changed { after, change: Change::List(change) } => {
                let gone = change.gone_items().map(|(index, item)| (index, Self::Value(item)));
                let mut items: BTreeMap<_, _> = gone.collect();
                items.extend(after.as_array()?.iter().enumerate().filter_map(|(index, item)| {
                    Some((change.origin(index)?, Self::new(item, change.item(index))))
                }));
                Some(items.into_values().collect())
            }
            Self::Changed { .. } => None,
        }
    }

    /// Returns the name of an item of a list.
    pub(super) fn name(self) -> Option<&'v str> {
        match self.member("name") {
            Self::Value(name) => name.as_str(),
            Self::Changed { .. } => None,
        }
    }

    pub(super) fn to_value(self) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Changed { after, change } => change.before(after).unwrap_or_default(),
        }
    }
}
