//! Template values of Go types.
//!
//! A struct is an object with a mark of its type. A pointer is the value it points to, or nil. In
//! Go, every non-nil pointer is true, also a pointer to `false`, `0` or `""`. The engine tests the
//! value itself, so a pointer to one of these is a string that prints the same. Fields that no
//! template names stay JSON; they are visible only where a template writes the whole struct.

mod field_names;
pub(crate) mod json;
pub(crate) mod marshal;
pub(crate) mod methods;
pub(crate) mod type_tag;
pub(crate) mod used_fields;

use std::collections::{BTreeMap, HashMap};

use go_types::{DURATION, Field, FieldKind, INT_OR_STRING, RESOURCE_LIST, Type};
use gtmpl_ng::{Number, NumberKind, Value as TemplateValue};
use serde_json::{Map, Value};

use self::json::{LIST, UNNAMED, guarded};
use self::methods::RESOURCES;
use self::used_fields::{Name, UsedFields};
use super::escape;
use crate::kubernetes::quantity;

/// Returns a struct with these fields, given as JSON. Absent fields get Go's zero value.
pub(crate) fn of_struct(
    of: &Type,
    members: Option<&Map<String, Value>>,
    used_fields: &UsedFields,
) -> TemplateValue {
    let there = members.map_or(0, Map::len);
    let mut fields = HashMap::with_capacity(there + 2);
    fields.extend([typed(of)]);
    let mut unnamed = BTreeMap::new();
    for (name, value) in members.into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let (name, value) = match of.field(name) {
            Some(field) if !used_fields.names(of, field) => {
                unnamed.insert(name, value);
                continue;
            }
            Some(field) => (field.go.to_owned(), of_kind(field.kind, value, used_fields)),
            // A field of a Kubernetes or Istio release newer than the type table.
            None => (field_names::of_field(name), guarded(value)),
        };
        fields.insert(name, value);
    }
    if !unnamed.is_empty() {
        // The engine copies each value that is read, and one string is cheap to copy.
        let json = serde_json::to_string(&unnamed).unwrap_or_default();
        fields.insert(
            UNNAMED.to_owned(),
            TemplateValue::String(escape::escaped_only(&json).into_owned()),
        );
    }
    for name in used_fields.names_for(of) {
        match name {
            Name::Field(field) if !fields.contains_key(field.go) => {
                let absent = if of.is_message() { of_nothing } else { zero };
                fields.insert(field.go.to_owned(), absent(field.kind, used_fields));
            }
            Name::Field(_) => {}
            Name::Getter(getter, way) => {
                let got = got(&fields, way, used_fields);
                fields.insert(getter.clone(), got);
            }
            Name::Call(name, call) => {
                fields.extend(call.answer(members).map(|answer| (name.clone(), answer)));
            }
            Name::Embedded(name, embedded) => {
                fields.insert((*name).to_owned(), of_struct(embedded, members, used_fields));
            }
        }
    }
    TemplateValue::Object(fields)
}

/// Returns the fields of a struct that [`of_struct`] left as JSON.
pub(crate) fn unnamed(
    of: &Type,
    fields: &HashMap<String, TemplateValue>,
) -> HashMap<String, TemplateValue> {
    let Some(TemplateValue::String(json)) = fields.get(UNNAMED) else { return HashMap::new() };
    let members: Map<String, Value> =
        serde_json::from_str(&escape::plain(json)).unwrap_or_default();
    match of_struct(of, Some(&members), &UsedFields::whatever_is_there()) {
        TemplateValue::Object(fields) => fields,
        _ => HashMap::new(),
    }
}

/// Returns the result of a chain of getters, even if messages on the way are absent.
fn got(
    fields: &HashMap<String, TemplateValue>,
    way: &[&Field],
    used_fields: &UsedFields,
) -> TemplateValue {
    let Some((last, before)) = way.split_last() else { return TemplateValue::NoValue };
    let mut here = Some(fields);
    for field in before {
        here = match here.and_then(|fields| fields.get(field.go)) {
            Some(TemplateValue::Object(fields)) => Some(fields),
            _ => None,
        };
    }
    let there = here.and_then(|fields| fields.get(last.go));
    there.cloned().unwrap_or_else(|| of_nothing(last.kind, used_fields))
}

/// Returns the member that marks the type of a struct.
pub(crate) fn typed(of: &Type) -> (String, TemplateValue) {
    (type_tag::TYPED.to_owned(), type_tag::mark(of))
}

fn of_kind(kind: FieldKind, value: &Value, used_fields: &UsedFields) -> TemplateValue {
    match (kind, value) {
        (_, Value::Null) => zero(kind, used_fields),
        (FieldKind::Struct(of), Value::Object(members)) => {
            of_struct(of, Some(members), used_fields)
        }
        (FieldKind::Pointer(kind), value) => pointer_to(of_kind(*kind, value, used_fields)),
        (FieldKind::List(kind), Value::Array(items)) => TemplateValue::Array(
            items.iter().map(|item| of_kind(*kind, item, used_fields)).collect(),
        ),
        (FieldKind::Map(FieldKind::Quantity), Value::Object(members)) if used_fields.resources => {
            resource_list(members)
        }
        (FieldKind::Map(kind), Value::Object(members)) => TemplateValue::Map(
            members
                .iter()
                .map(|(key, value)| {
                    let key = escape::guarded_key(key, |key| used_fields.names_key(key));
                    (key.into_owned(), of_kind(*kind, value, used_fields))
                })
                .collect(),
        ),
        (FieldKind::Quantity, value) => match quantity::canonical(value) {
            Some(text) => TemplateValue::from(text),
            None => guarded(value),
        },
        (FieldKind::IntOrString, value) if used_fields.parts_of_ports => int_or_string(value),
        (FieldKind::Duration, Value::String(text)) if used_fields.parts_of_durations => {
            duration(text)
        }
        (FieldKind::Enum(words), Value::Number(number)) => {
            let word = number.as_u64().and_then(|place| words.get(usize::try_from(place).ok()?));
            word.map_or_else(|| guarded(value), |word| TemplateValue::from(*word))
        }
        (FieldKind::Wrapper(within), value) => wrapper(kind, of_kind(*within, value, used_fields)),
        (_, value) => guarded(value),
    }
}

/// Returns Go's zero value of a type.
fn zero(kind: FieldKind, used_fields: &UsedFields) -> TemplateValue {
    match kind {
        FieldKind::Bool => TemplateValue::from(false),
        FieldKind::String => TemplateValue::from(""),
        FieldKind::Enum(words) => TemplateValue::from(words.first().copied().unwrap_or_default()),
        FieldKind::IntOrString if used_fields.parts_of_ports => int_or_string(&Value::from(0)),
        FieldKind::Float | FieldKind::Int(_) | FieldKind::IntOrString | FieldKind::Unsigned => {
            TemplateValue::from(0)
        }
        FieldKind::List(_) => TemplateValue::Array(Vec::new()),
        FieldKind::Map(FieldKind::Quantity) if used_fields.resources => resource_list(&Map::new()),
        FieldKind::Map(_) => TemplateValue::Map(HashMap::new()),
        FieldKind::Quantity => TemplateValue::from("0"),
        FieldKind::Struct(of) => of_struct(of, None, used_fields),
        FieldKind::Time => TemplateValue::from("0001-01-01 00:00:00 +0000 UTC"),
        FieldKind::Any | FieldKind::Duration | FieldKind::Pointer(_) | FieldKind::Wrapper(_) => {
            TemplateValue::Nil
        }
    }
}

/// Returns the value that the getter of an unset field gives. Go's getters accept a nil message, at
/// any depth.
fn of_nothing(kind: FieldKind, used_fields: &UsedFields) -> TemplateValue {
    match zero(kind, used_fields) {
        TemplateValue::Nil => TemplateValue::NoValue,
        zero => zero,
    }
}

fn pointer_to(value: TemplateValue) -> TemplateValue {
    match value {
        TemplateValue::Bool(false) => TemplateValue::from("false"),
        TemplateValue::Number(number) if is_zero(&number) => TemplateValue::from("0"),
        TemplateValue::String(text) if text.is_empty() => TemplateValue::from(escape::EMPTY),
        other => other,
    }
}

/// True if a number of any type is 0.
pub(crate) fn is_zero(number: &Number) -> bool {
    match number.kind() {
        NumberKind::Float(number) => number == 0.0,
        NumberKind::Signed(number) => number == 0,
        NumberKind::Unsigned(number) => number == 0,
    }
}

fn wrapper(kind: FieldKind, value: TemplateValue) -> TemplateValue {
    match kind.message() {
        Some(of) => object(of, [("Value", value.clone()), ("GetValue", value)]),
        None => value,
    }
}

fn int_or_string(value: &Value) -> TemplateValue {
    let number = value.as_i64().unwrap_or_default();
    let text = value.as_str().unwrap_or_default();
    let parsed = if value.is_string() { text.parse().unwrap_or_default() } else { number };
    let written = if value.is_string() { text.to_owned() } else { number.to_string() };
    object(
        INT_OR_STRING,
        [
            ("Type", TemplateValue::from(i64::from(value.is_string()))),
            ("IntVal", TemplateValue::from(number)),
            ("StrVal", TemplateValue::String(escape::guarded(text).into_owned())),
            ("IntValue", TemplateValue::from(parsed)),
            ("String", TemplateValue::String(escape::guarded(&written).into_owned())),
        ],
    )
}

fn resource_list(members: &Map<String, Value>) -> TemplateValue {
    let quantity =
        |value: &Value| of_kind(FieldKind::Quantity, value, &UsedFields::whatever_is_there());
    let zero = Value::from("0");
    let mut fields: HashMap<_, _> = RESOURCES
        .iter()
        .map(|(name, resource)| {
            ((*name).to_owned(), quantity(members.get(*resource).unwrap_or(&zero)))
        })
        .collect();
    let list = members
        .iter()
        .map(|(key, value)| (escape::guarded_key(key, |_| false).into_owned(), quantity(value)));
    fields.extend([typed(RESOURCE_LIST), (LIST.to_owned(), TemplateValue::Map(list.collect()))]);
    TemplateValue::Object(fields)
}

/// Converts a duration in the notation of protobuf's JSON.
fn duration(text: &str) -> TemplateValue {
    let number = text.strip_suffix('s').unwrap_or(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let seconds = TemplateValue::from(whole.parse::<i64>().unwrap_or_default());
    let nanos = TemplateValue::from(format!("{fraction:0<9}").parse::<i64>().unwrap_or_default());
    object(
        DURATION,
        [
            ("Seconds", seconds.clone()),
            ("GetSeconds", seconds),
            ("Nanos", nanos.clone()),
            ("GetNanos", nanos),
            ("AsDuration", TemplateValue::from(text)),
        ],
    )
}

fn object<const N: usize>(of: &Type, members: [(&str, TemplateValue); N]) -> TemplateValue {
    let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
    TemplateValue::Object(members.chain([typed(of)]).collect())
}
