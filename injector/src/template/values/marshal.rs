//! JSON of template values as Go's `json.Marshal` writes it: struct fields in their order and under
//! their JSON names, without empty `omitempty` fields; maps sorted by key.

use std::collections::HashMap;

use go_types::{DURATION, Field, FieldKind, INT_OR_STRING, RESOURCE_LIST, Type};
use gtmpl_ng::Value as TemplateValue;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use super::json::{HIDDEN, LIST, json};
use super::{field_names, is_zero, type_tag};
use crate::template::{escape, values};

/// A template value, or Go's zero value of its type.
pub(crate) struct Marshalled<'a> {
    value: Option<&'a TemplateValue>,
    kind: FieldKind,
}

impl<'a> Marshalled<'a> {
    /// Wraps a template value of any type.
    pub(crate) fn new(value: &'a TemplateValue) -> Self {
        Self { value: Some(value), kind: FieldKind::Any }
    }

    fn item(&self, value: &'a TemplateValue) -> Self {
        let kind = match self.kind {
            FieldKind::List(kind) | FieldKind::Map(kind) => *kind,
            _ => FieldKind::Any,
        };
        Self { value: Some(value), kind }
    }

    fn of_field(
        field: &Field,
        members: Option<&'a HashMap<String, TemplateValue>>,
        unnamed: &'a HashMap<String, TemplateValue>,
    ) -> Self {
        let named = members.and_then(|members| members.get(field.go));
        Self { value: named.or_else(|| unnamed.get(field.go)), kind: field.kind }
    }

    /// True if `omitempty` drops the value. Go treats no struct as empty, and no non-nil pointer.
    fn is_empty(&self) -> bool {
        match (self.value, self.kind) {
            (None, FieldKind::Struct(_) | FieldKind::Quantity | FieldKind::IntOrString) => false,
            (None | Some(TemplateValue::Nil | TemplateValue::NoValue), _) => true,
            (Some(_), FieldKind::Pointer(_) | FieldKind::Quantity | FieldKind::IntOrString) => {
                false
            }
            (Some(TemplateValue::Bool(on)), _) => !on,
            (Some(TemplateValue::Number(number)), _) => is_zero(number),
            (Some(TemplateValue::String(text)), _) => text.is_empty(),
            (Some(TemplateValue::Array(items)), _) => items.is_empty(),
            (Some(TemplateValue::Map(members)), _) => members.is_empty(),
            (Some(TemplateValue::Object(list)), FieldKind::Map(_)) => {
                list.get(LIST) == Some(&TemplateValue::Map(HashMap::new()))
            }
            (Some(_), _) => false,
        }
    }

    fn zero(&self) -> Value {
        match self.kind {
            FieldKind::Bool => Value::Bool(false),
            FieldKind::String => Value::from(""),
            FieldKind::Float | FieldKind::Int(_) | FieldKind::IntOrString | FieldKind::Unsigned => {
                Value::from(0)
            }
            FieldKind::Quantity => Value::from("0"),
            _ => Value::Null,
        }
    }
}

impl Serialize for Marshalled<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.value, self.kind) {
            (None, FieldKind::Struct(of)) => fields(of, None, serializer),
            (None, _) => self.zero().serialize(serializer),
            (Some(TemplateValue::Array(items)), _) => {
                let mut sequence = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    sequence.serialize_element(&self.item(item))?;
                }
                sequence.end()
            }
            (Some(value @ TemplateValue::Object(members)), _) => match type_tag::tagged_type(value)
            {
                Some(of) => fields(of, Some(members), serializer),
                None => json(value).serialize(serializer),
            },
            (Some(TemplateValue::Map(members)), _) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by_key(|(key, _)| *key);
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, value) in members {
                    map.serialize_entry(&*escape::plain(key), &self.item(value))?;
                }
                map.end()
            }
            // A pointer to `false` or `0` is a string, see `pointer_to`.
            (Some(TemplateValue::String(_)), FieldKind::Pointer(FieldKind::Bool)) => {
                false.serialize(serializer)
            }
            (
                Some(TemplateValue::String(_)),
                FieldKind::Pointer(FieldKind::Int(_) | FieldKind::Unsigned | FieldKind::Float),
            ) => 0.serialize(serializer),
            (Some(scalar), _) => json(scalar).serialize(serializer),
        }
    }
}

fn fields<S: Serializer>(
    of: &Type,
    members: Option<&HashMap<String, TemplateValue>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if let Some(stands_for) = members.and_then(|members| stands_for(of, members)) {
        return Marshalled::new(stands_for).serialize(serializer);
    }
    let unnamed = members.map(|members| values::unnamed(of, members)).unwrap_or_default();
    let mut map = serializer.serialize_map(None)?;
    for field in of.fields() {
        let value = Marshalled::of_field(field, members, &unnamed);
        if field.is_kept() || !value.is_empty() {
            map.serialize_entry(field.json, &value)?;
        }
    }
    for (name, value) in newer(of, members) {
        map.serialize_entry(&field_names::to_field(name), &Marshalled::new(value))?;
    }
    map.end()
}

/// Returns the member that represents a value without JSON fields.
fn stands_for<'a>(
    of: &Type,
    members: &'a HashMap<String, TemplateValue>,
) -> Option<&'a TemplateValue> {
    let is = |other: &Type| of.id == other.id;
    let name = if is(RESOURCE_LIST) {
        LIST
    } else if of.is_wrapper() {
        "Value"
    } else if is(DURATION) {
        "AsDuration"
    } else if is(INT_OR_STRING) {
        let is_text = members.get("Type") == Some(&TemplateValue::from(1));
        if is_text { "StrVal" } else { "IntVal" }
    } else {
        return None;
    };
    members.get(name)
}

/// Returns the members of a struct that are missing from the type table, sorted.
fn newer<'a>(
    of: &'a Type,
    members: Option<&'a HashMap<String, TemplateValue>>,
) -> Vec<(&'a String, &'a TemplateValue)> {
    let known = |name: &str| {
        let getter = of.has_getters() && name.starts_with("Get") || name.contains('_');
        let embedded = || of.embedded().any(|(embedded, _)| embedded == name);
        getter || of.fields().any(|field| field.go == name) || embedded()
    };
    let members = members.into_iter().flatten();
    let mut newer: Vec<_> =
        members.filter(|(name, _)| !name.starts_with(HIDDEN) && !known(name)).collect();
    newer.sort_by_key(|(name, _)| *name);
    newer
}
