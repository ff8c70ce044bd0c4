//! Values of the template engine, and JSON.

use std::borrow::Cow;

use gtmpl_ng::Value as Datum;
use serde_json::{Map, Value};

use crate::template::escape;

/// A document of the operator's as it stands, not guarded.
pub(crate) fn document(value: &Value) -> Datum {
    untyped(value, |text| Cow::Borrowed(text), |key| Cow::Borrowed(key))
}

/// JSON from a pod's text. It is not known here which keys a template names after a dot, so that all
/// that it may name stay.
pub(crate) fn guarded(value: &Value) -> Datum {
    untyped(value, escape::guarded, |key| escape::guarded_key(key, escape::is_name))
}

/// The JSON of a datum, without guards; the names of Go's fields stay.
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

/// What a message of Istio's API keeps for the functions that take it whole.
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
        // Go asks a nil between parentheses, as an absent key, for a field; the engine asks only
        // what is absent.
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

/// Begins the keys that no template can name.
pub(crate) const HIDDEN: char = '\u{0}';

/// Under this key a struct keeps the JSON of its fields that no template names.
pub(crate) const UNNAMED: &str = "\u{0}unnamed";

/// Under this key a list of resources keeps its members.
pub(crate) const LIST: &str = "\u{0}list";

/// Under this key a message keeps its JSON.
pub(crate) const JSON: &str = "\u{0}json";

/// Under this key the mesh configuration keeps its providers.
pub(crate) const OTEL: &str = "\u{0}otel";
