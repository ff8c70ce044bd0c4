//! Objects of several renderings as one tree, whose parts have conditions.

use anyhow::{Result, bail, ensure};
use serde_json::{Map, Value};

use crate::names::without_revision;

/// Part of a document.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Scalar(Value),
    Map(Vec<Item>),
    List(Vec<Item>),
    /// Template text of whole lines, with the indentation in place of `INDENT`.
    Block(String),
}

/// Entry of a map or element of a list, rendered if all guards hold.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The key in a map, the identity in a list.
    pub(crate) key: String,
    pub(crate) guards: Vec<Guard>,
    pub(crate) tree: Tree,
}

/// Condition in the chart's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    If(&'static str),
    Unless(&'static str),
    /// One copy for each element of a list: the header of a `range`.
    Each(&'static str),
    /// The value is not set.
    Unset(String),
    /// Any of several conjunctions.
    Any(Vec<Vec<Guard>>),
}

impl Guard {
    fn negation(&self) -> Result<Self> {
        match self {
            Self::If(condition) => Ok(Self::Unless(condition)),
            Self::Unless(condition) => Ok(Self::If(condition)),
            Self::Each(_) | Self::Unset(_) | Self::Any(_) => {
                bail!("a component that is there {self:?} only adds")
            }
        }
    }
}

impl Tree {
    pub(crate) fn new(value: &Value) -> Self {
        match value {
            Value::Object(map) if !map.is_empty() => {
                let item = |(key, value): (&String, &Value)| Item::new(key, Vec::new(), value);
                Self::Map(map.iter().map(item).collect())
            }
            Value::Array(list) if !list.is_empty() => {
                let item = |value: &Value| Item::new(&identity(value), Vec::new(), value);
                Self::List(list.iter().map(item).collect())
            }
            scalar => Self::Scalar(scalar.clone()),
        }
    }

    /// Applies the difference of two renderings under a guard. Parts that other guards have brought
    /// stay.
    ///
    /// A text that differs in the revision alone is replaced by the one with the revision.
    pub(crate) fn apply(&mut self, before: &Value, after: &Value, guard: &Guard) -> Result<()> {
        match (self, before, after) {
            (Self::Map(items), Value::Object(before), Value::Object(after)) => {
                apply_map(items, before, after, guard)
            }
            (Self::List(items), Value::Array(before), Value::Array(after)) => {
                apply_list(items, before, after, guard)
            }
            (Self::Scalar(scalar), _, _) if is_same(before, after) => {
                if *after != *before {
                    *scalar = after.clone();
                }
                Ok(())
            }
            (tree, ..) => bail!("{before} becomes {after} in {tree:?}"),
        }
    }
}

impl Item {
    fn new(key: &str, guards: Vec<Guard>, value: &Value) -> Self {
        Self { key: key.to_owned(), guards, tree: Tree::new(value) }
    }

    fn forbid(&mut self, guard: &Guard) -> Result<()> {
        let negation = guard.negation()?;
        if !self.guards.contains(&negation) {
            self.guards.push(negation);
        }
        Ok(())
    }

    /// Lets the container be there under another guard too, which its parts so far are not.
    fn widen(&mut self, guard: &Guard) {
        if self.guards.is_empty() || self.guards.contains(guard) {
            return;
        }
        let guards = std::mem::take(&mut self.guards);
        let alternatives = match guards.as_slice() {
            [Guard::Any(alternatives)] if alternatives.contains(&vec![guard.clone()]) => {
                self.guards = guards;
                return;
            }
            [Guard::Any(alternatives)] => alternatives.clone(),
            _ => {
                if let Tree::Map(items) | Tree::List(items) = &mut self.tree {
                    for item in items {
                        item.guards.extend(guards.iter().cloned());
                    }
                }
                vec![guards]
            }
        };
        self.guards = vec![Guard::Any([alternatives, vec![vec![guard.clone()]]].concat())];
    }
}

fn apply_map(
    items: &mut Vec<Item>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    guard: &Guard,
) -> Result<()> {
    for (key, value) in before {
        let mut found = items.iter().enumerate().filter(|(_, item)| item.key == *key);
        let is_container = |item: &Item| matches!(item.tree, Tree::Map(_) | Tree::List(_));
        let found = found.find(|(_, item)| is_container(item) || is_scalar(item, value));
        let Some((index, _)) = found else { bail!("no {key}: {value} among {items:?}") };
        match after.get(key) {
            None => items[index].forbid(guard)?,
            Some(changed) if is_container(&items[index]) || is_same(value, changed) => {
                items[index].tree.apply(value, changed, guard)?;
            }
            Some(changed) => {
                let guards = [items[index].guards.clone(), vec![guard.clone()]].concat();
                items[index].forbid(guard)?;
                let is_there = |item: &Item| item.key == *key && is_scalar(item, changed);
                if !items.iter().any(is_there) {
                    items.insert(index + 1, Item::new(key, guards, changed));
                }
            }
        }
    }
    for (key, value) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
        let Some(item) = items.iter_mut().find(|item| item.key == *key) else {
            items.push(Item::new(key, vec![guard.clone()], value));
            continue;
        };
        match (&mut item.tree, value) {
            (Tree::Scalar(_), _) => ensure!(is_scalar(item, value), "{key} is there: {item:?}"),
            (_, Value::Object(map)) => {
                item.widen(guard);
                let Tree::Map(items) = &mut item.tree else { bail!("{key} is not a map") };
                apply_map(items, &Map::new(), map, guard)?;
            }
            (_, Value::Array(list)) => {
                item.widen(guard);
                let Tree::List(items) = &mut item.tree else { bail!("{key} is not a list") };
                apply_list(items, &[], list, guard)?;
            }
            _ => bail!("{key} is there: {item:?}"),
        }
    }
    Ok(())
}

fn apply_list(
    items: &mut Vec<Item>,
    before: &[Value],
    after: &[Value],
    guard: &Guard,
) -> Result<()> {
    let position = |items: &[Item], key: &str| items.iter().position(|item| item.key == key);
    let in_after = |key: &str| after.iter().find(|value| identity(value) == key);
    for value in before {
        let key = identity(value);
        let Some(index) = position(items, &key) else { bail!("no {key} among {items:?}") };
        match in_after(&key) {
            None => items[index].forbid(guard)?,
            Some(changed) => items[index].tree.apply(value, changed, guard)?,
        }
    }
    let is_kept = |value: &&Value| before.iter().any(|one| identity(one) == identity(value));
    for (index, value) in after.iter().enumerate().filter(|(_, value)| !is_kept(value)) {
        let key = identity(value);
        if position(items, &key).is_some() {
            continue;
        }
        let next = after[index..].iter().find(is_kept);
        let next = next.and_then(|next| position(items, &identity(next)));
        let next = next.unwrap_or(items.len());
        items.insert(next, Item::new(&key, vec![guard.clone()], value));
    }
    Ok(())
}

/// True if both are equal but for the revision.
fn is_same(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::String(before), Value::String(after)) => {
            without_revision(before) == without_revision(after)
        }
        _ => before == after,
    }
}

fn is_scalar(item: &Item, value: &Value) -> bool {
    matches!(&item.tree, Tree::Scalar(scalar) if is_same(scalar, value))
}

/// Returns the text by which an element of a list is found in another rendering of the list.
fn identity(value: &Value) -> String {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let text = match (&value["kind"], &value["key"], &value["resources"]) {
        (Value::String(kind), ..) if value["metadata"].is_object() => {
            format!("{kind} {}", value["metadata"]["name"].as_str().unwrap_or_default())
        }
        (_, Value::String(key), _) => format!("{key} {}", value["operator"]),
        (.., resources @ Value::Array(_)) => format!("{resources} {}", value["verbs"]),
        _ => match (text("name"), text("alert"), value.as_str()) {
            (Some(name), ..) | (None, Some(name), _) => name,
            (.., Some(string)) => string.to_owned(),
            _ => value.to_string(),
        },
    };
    without_revision(&text)
}
