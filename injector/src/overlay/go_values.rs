//! Values of Go's types, as the template engine holds them.
//!
//! A struct is an object that knows its type. A pointer is what it points to, or nil. Go takes every
//! pointer that is not nil for true, also one to `false`, `0` or `""`; the engine looks at the value,
//! so one to these is a text that prints the same. Fields that no template names stay JSON: only who
//! writes a whole struct sees them.

use std::collections::{BTreeMap, HashMap};

use gtmpl_ng::{Number, NumberKind, Value as Datum};
use serde_json::{Map, Value};

use super::asked::{Asked, Name};
use super::datum::{LIST, UNNAMED, guarded};
use super::methods::RESOURCES;
use super::typed;
use super::{go_names, guard};
use crate::go_types::{DURATION, Field, INT_OR_STRING, Kind, RESOURCE_LIST, Type};
use crate::quantity;

/// A struct with these fields in JSON; one that JSON does not name is what Go starts it with.
pub(super) fn of_struct(of: &Type, members: Option<&Map<String, Value>>, asked: &Asked) -> Datum {
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
            // Of a release of Kubernetes or Istio that is newer than the table.
            None => (go_names::of_field(name), guarded(value)),
        };
        fields.insert(name, value);
    }
    if !unnamed.is_empty() {
        // The engine copies what it is asked for, and a text is copied at once.
        let json = serde_json::to_string(&unnamed).unwrap_or_default();
        fields.insert(UNNAMED.to_owned(), Datum::String(guard::escaped_only(&json).into_owned()));
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

/// The fields of a struct that [`of_struct`] left as JSON.
pub(super) fn unnamed(of: &Type, fields: &HashMap<String, Datum>) -> HashMap<String, Datum> {
    let Some(Datum::String(json)) = fields.get(UNNAMED) else { return HashMap::new() };
    let members: Map<String, Value> = serde_json::from_str(&guard::plain(json)).unwrap_or_default();
    match of_struct(of, Some(&members), &Asked::whatever_is_there()) {
        Datum::Object(fields) => fields,
        _ => HashMap::new(),
    }
}

/// What a chain of getters gives, whatever is not there on the way.
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

/// The member that says what a struct is.
pub(super) fn typed(of: &Type) -> (String, Datum) {
    (typed::TYPED.to_owned(), typed::mark(of))
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
                    let key = guard::guarded_key(key, |key| asked.names_key(key));
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

/// What Go starts a value with.
fn zero(kind: Kind, asked: &Asked) -> Datum {
    match kind {
        Kind::Bool => Datum::from(false),
        Kind::String => Datum::from(""),
        Kind::Enum(words) => Datum::from(words.first().copied().unwrap_or_default()),
        Kind::IntOrString if asked.parts_of_ports => int_or_string(&Value::from(0)),
        Kind::Float | Kind::Int(_) | Kind::IntOrString | Kind::Unsigned => Datum::from(0),
        Kind::List(_) => Datum::Array(Vec::new()),
        Kind::Map(Kind::Quantity) if asked.resources => resource_list(&Map::new()),
        Kind::Map(_) => Datum::Map(HashMap::new()),
        Kind::Quantity => Datum::from("0"),
        Kind::Struct(of) => of_struct(of, None, asked),
        Kind::Time => Datum::from("0001-01-01 00:00:00 +0000 UTC"),
        Kind::Any | Kind::Duration | Kind::Pointer(_) | Kind::Wrapper(_) => Datum::Nil,
    }
}

/// What a message has for a field that is not there. Go's getters take a nil message, however deep
/// they go.
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
        Datum::String(text) if text.is_empty() => Datum::from(guard::EMPTY),
        other => other,
    }
}

/// Whether a number is 0, of whatever type.
pub(super) fn is_zero(number: &Number) -> bool {
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
            ("StrVal", Datum::String(guard::guarded(text).into_owned())),
            ("IntValue", Datum::from(parsed)),
            ("String", Datum::String(guard::guarded(&written).into_owned())),
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
        .map(|(key, value)| (guard::guarded_key(key, |_| false).into_owned(), quantity(value)));
    fields.extend([typed(&RESOURCE_LIST), (LIST.to_owned(), Datum::Map(list.collect()))]);
    Datum::Object(fields)
}

/// A duration in the form of protobuf's JSON.
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
