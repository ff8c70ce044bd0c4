//! Conversion between the template engine's values and JSON.

use std::borrow::Cow;

use gtmpl_ng::Value as Datum;
use serde_json::{Map, Value};

use crate::template::escape;

/// Converts a document of the operator, without guarding it.
pub(crate) fn document(value: &Value) -> Datum {
    untyped(value, |text| Cow::Borrowed(text), |key| Cow::Borrowed(key))
}

/// Converts JSON from a pod's text and guards it. The keys that templates name after a dot are
/// unknown here, so every key that could be such a name stays.
pub(crate) fn guarded(value: &Value) -> Datum {
    untyped(value, escape::guarded, |key| escape::guarded_key(key, escape::is_name))
}

/// Returns the JSON of a template value, without guards. Go's field names stay.
pub(crate) fn json(datum: &Datum) -> Value {
    match datum {
        Datum::NoValue | Datum::Nil | Datum::Function(_) => Value::Null,
        Datum::Bool(on) => Value::Bool(*on),
        Datum::String(text) => Value::String(escape::plain(text).into_owned()),
        Datum::Number(number) => match number.kind() {
            gtmpl_ng::NumberKind::Unsigned(number) => number.into(),
            gtmpl_ng::NumberKind::Signed(number) => number.into(),
            gtmpl_ng::NumberKind::Float(number) => number.into(),
        },
        Datum::Array(items) => items.iter().map(json).collect(),
        Datum::Map(members) | Datum::Object(members) => members
            .iter()
            .filter(|(key, _)| !key.starts_with(HIDDEN))
            .map(|(key, value)| (escape::plain(key).into_owned(), json(value)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

/// Returns a hidden member of an Istio API message, kept for functions that take the whole message.
pub(crate) fn hidden<'a>(message: &'a Datum, key: &str) -> Option<&'a Datum> {
    match message {
        Datum::Object(members) => members.get(key),
        _ => None,
    }
}

fn untyped(
    value: &Value,
    with: impl Fn(&str) -> Cow<'_, str> + Copy,
    with_key: impl Fn(&str) -> Cow<'_, str> + Copy,
) -> Datum {
    let within = |value| untyped(value, with, with_key);
    match value {
        // In Go, a field of a nil in parentheses is no value, as with an absent key. The engine
        // allows this only for an absent value.
        Value::Null => Datum::NoValue,
        Value::Bool(on) => Datum::Bool(*on),
        Value::Number(number) => crate::template::values::json::number(number),
        Value::String(text) => Datum::String(with(text).into_owned()),
        Value::Array(items) => Datum::Array(items.iter().map(within).collect()),
        Value::Object(members) => {
            let members = members.iter();
            Datum::Map(
                members.map(|(key, value)| (with_key(key).into_owned(), within(value))).collect(),
            )
        }
    }
}

fn number(number: &serde_json::Number) -> Datum {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(number), ..) => Datum::from(number),
        (_, Some(number), _) => Datum::from(number),
        (_, _, number) => Datum::from(number.unwrap_or_default()),
    }
}

/// Prefix of keys that no template can name.
pub(crate) const HIDDEN: char = '\u{0}';

/// Key of a struct for the JSON of the fields that no template names.
pub(crate) const UNNAMED: &str = "\u{0}unnamed";

/// Key of a `ResourceList` for its members.
pub(crate) const LIST: &str = "\u{0}list";

/// Key of a message for its JSON.
pub(crate) const JSON: &str = "\u{0}json";

/// Key of the mesh configuration for its extension providers.
pub(crate) const OTEL: &str = "\u{0}otel";
