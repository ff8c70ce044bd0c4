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

use go_types::{DURATION, Field, INT_OR_STRING, Kind, RESOURCE_LIST, Type};
use gtmpl_ng::{Number, NumberKind, Value as Datum};
use serde_json::{Map, Value};

use self::json::{LIST, UNNAMED, guarded};
use self::methods::RESOURCES;
use self::used_fields::{Asked, Name};
use super::escape;
use crate::kubernetes::quantity;

/// Returns a struct with these fields, given as JSON. Absent fields get Go's zero value.
pub(crate) fn of_struct(of: &Type, members: Option<&Map<String, Value>>, asked: &Asked) -> Datum {
    let there = members.map_or(0, Map::len);
    let mut fields = HashMap::with_capacity(there + 2);
    fields.extend([typed(of)]);
    let mut unnamed = BTreeMap::new();
    for (name, value) in members.into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let (name, value) = match of.field(name) {
            Some(field) if !asked.names(of, field) => {
                unnamed.insert(name, value);
                continue;
            }
            Some(field) => (field.go.to_owned(), of_kind(field.kind, value, asked)),
            // A field of a Kubernetes or Istio release newer than the type table.
            None => (field_names::of_field(name), guarded(value)),
        };
        fields.insert(name, value);
    }
    if !unnamed.is_empty() {
        // The engine copies each value that is read, and one string is cheap to copy.
        let json = serde_json::to_string(&unnamed).unwrap_or_default();
        fields.insert(UNNAMED.to_owned(), Datum::String(escape::escaped_only(&json).into_owned()));
    }
    for name in asked.of(of) {
        match name {
            Name::Field(field) if !fields.contains_key(field.go) => {
                let absent = if of.is_message() { of_nothing } else { zero };
                fields.insert(field.go.to_owned(), absent(field.kind, asked));
            }
            Name::Field(_) => {}
            Name::Getter(getter, way) => {
                let got = got(&fields, way, asked);
                fields.insert(getter.clone(), got);
            }
            Name::Call(name, call) => {
                fields.extend(call.answer(members).map(|answer| (name.clone(), answer)));
            }
            Name::Embedded(name, embedded) => {
                fields.insert((*name).to_owned(), of_struct(embedded, members, asked));
            }
        }
    }
    Datum::Object(fields)
}

/// Returns the fields of a struct that [`of_struct`] left as JSON.
pub(crate) fn unnamed(of: &Type, fields: &HashMap<String, Datum>) -> HashMap<String, Datum> {
    let Some(Datum::String(json)) = fields.get(UNNAMED) else { return HashMap::new() };
    let members: Map<String, Value> =
        serde_json::from_str(&escape::plain(json)).unwrap_or_default();
    match of_struct(of, Some(&members), &Asked::whatever_is_there()) {
        Datum::Object(fields) => fields,
        _ => HashMap::new(),
    }
}

/// Returns the result of a chain of getters, even if messages on the way are absent.
fn got(fields: &HashMap<String, Datum>, way: &[&Field], asked: &Asked) -> Datum {
    let Some((last, before)) = way.split_last() else { return Datum::NoValue };
    let mut here = Some(fields);
    for field in before {
        here = match here.and_then(|fields| fields.get(field.go)) {
            Some(Datum::Object(fields)) => Some(fields),
            _ => None,
        };
    }
    let there = here.and_then(|fields| fields.get(last.go));
    there.cloned().unwrap_or_else(|| of_nothing(last.kind, asked))
}

/// Returns the member that marks the type of a struct.
pub(crate) fn typed(of: &Type) -> (String, Datum) {
    (type_tag::TYPED.to_owned(), type_tag::mark(of))
}

fn of_kind(kind: Kind, value: &Value, asked: &Asked) -> Datum {
    match (kind, value) {
        (_, Value::Null) => zero(kind, asked),
        (Kind::Struct(of), Value::Object(members)) => of_struct(of, Some(members), asked),
        (Kind::Pointer(kind), value) => pointer_to(of_kind(*kind, value, asked)),
        (Kind::List(kind), Value::Array(items)) => {
            Datum::Array(items.iter().map(|item| of_kind(*kind, item, asked)).collect())
        }
        (Kind::Map(Kind::Quantity), Value::Object(members)) if asked.resources => {
            resource_list(members)
        }
        (Kind::Map(kind), Value::Object(members)) => Datum::Map(
            members
                .iter()
                .map(|(key, value)| {
                    let key = escape::guarded_key(key, |key| asked.names_key(key));
                    (key.into_owned(), of_kind(*kind, value, asked))
                })
                .collect(),
        ),
        (Kind::Quantity, value) => match quantity::canonical(value) {
            Some(text) => Datum::from(text),
            None => guarded(value),
        },
        (Kind::IntOrString, value) if asked.parts_of_ports => int_or_string(value),
        (Kind::Duration, Value::String(text)) if asked.parts_of_durations => duration(text),
        (Kind::Enum(words), Value::Number(number)) => {
            let word = number.as_u64().and_then(|place| words.get(usize::try_from(place).ok()?));
            word.map_or_else(|| guarded(value), |word| Datum::from(*word))
        }
        (Kind::Wrapper(within), value) => wrapper(kind, of_kind(*within, value, asked)),
        (_, value) => guarded(value),
    }
}

/// Returns Go's zero value of a type.
fn zero(kind: Kind, asked: &Asked) -> Datum {
    match kind {
        Kind::Bool => Datum::from(false),
        Kind::String => Datum::from(""),
        Kind::Enum(words) => Datum::from(words.first().copied().unwrap_or_default()),
        Kind::IntOrString if asked.parts_of_ports => int_or_string(&Value::from(0)),
        Kind::Float | Kind::Int(_) | Kind::IntOrString => Datum::from(0),
        Kind::List(_) => Datum::Array(Vec::new()),
        Kind::Map(Kind::Quantity) if asked.resources => resource_list(&Map::new()),
        Kind::Map(_) => Datum::Map(HashMap::new()),
        Kind::Quantity => Datum::from("0"),
        Kind::Struct(of) => of_struct(of, None, asked),
        Kind::Time => Datum::from("0001-01-01 00:00:00 +0000 UTC"),
        Kind::Any | Kind::Duration | Kind::Pointer(_) | Kind::Wrapper(_) => Datum::Nil,
    }
}

/// Returns the value that the getter of an unset field gives. Go's getters accept a nil message, at
/// any depth.
fn of_nothing(kind: Kind, asked: &Asked) -> Datum {
    match zero(kind, asked) {
        Datum::Nil => Datum::NoValue,
        zero => zero,
    }
}

fn pointer_to(datum: Datum) -> Datum {
    match datum {
        Datum::Bool(false) => Datum::from("false"),
        Datum::Number(number) if is_zero(&number) => Datum::from("0"),
        Datum::String(text) if text.is_empty() => Datum::from(escape::EMPTY),
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

fn wrapper(kind: Kind, value: Datum) -> Datum {
    match kind.message() {
        Some(of) => object(of, [("Value", value.clone()), ("GetValue", value)]),
        None => value,
    }
}

fn int_or_string(value: &Value) -> Datum {
    let number = value.as_i64().unwrap_or_default();
    let text = value.as_str().unwrap_or_default();
    let parsed = if value.is_string() { text.parse().unwrap_or_default() } else { number };
    let written = if value.is_string() { text.to_owned() } else { number.to_string() };
    object(
        &INT_OR_STRING,
        [
            ("Type", Datum::from(i64::from(value.is_string()))),
            ("IntVal", Datum::from(number)),
            ("StrVal", Datum::String(escape::guarded(text).into_owned())),
            ("IntValue", Datum::from(parsed)),
            ("String", Datum::String(escape::guarded(&written).into_owned())),
        ],
    )
}

fn resource_list(members: &Map<String, Value>) -> Datum {
    let quantity = |value: &Value| of_kind(Kind::Quantity, value, &Asked::whatever_is_there());
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
    fields.extend([typed(&RESOURCE_LIST), (LIST.to_owned(), Datum::Map(list.collect()))]);
    Datum::Object(fields)
}

/// Converts a duration in the notation of protobuf's JSON.
fn duration(text: &str) -> Datum {
    let number = text.strip_suffix('s').unwrap_or(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let seconds = Datum::from(whole.parse::<i64>().unwrap_or_default());
    let nanos = Datum::from(format!("{fraction:0<9}").parse::<i64>().unwrap_or_default());
    object(
        &DURATION,
        [
            ("Seconds", seconds.clone()),
            ("GetSeconds", seconds),
            ("Nanos", nanos.clone()),
            ("GetNanos", nanos),
            ("AsDuration", Datum::from(text)),
        ],
    )
}

fn object<const N: usize>(of: &Type, members: [(&str, Datum); N]) -> Datum {
    let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
    Datum::Object(members.chain([typed(of)]).collect())
}
