//! Conversion between the template engine's values and JSON.

use std::borrow::Cow;

use gtmpl_ng::Value as TemplateValue;
use serde_json::{Map, Value};

use crate::template::escape;

/// Converts a document of the operator, without guarding it.
pub(crate) fn document(value: &Value) -> TemplateValue {
    untyped(value, |text| Cow::Borrowed(text), |key| Cow::Borrowed(key))
}

/// Converts JSON from a pod's text and guards it. The keys that templates name after a dot are
/// unknown here, so every key that could be such a name stays.
pub(crate) fn guarded(value: &Value) -> TemplateValue {
    untyped(value, escape::guarded, |key| escape::guarded_key(key, escape::is_name))
}

/// Returns the JSON of a template value, without guards. Go's field names stay.
pub(crate) fn json(value: &TemplateValue) -> Value {
    match value {
        TemplateValue::NoValue | TemplateValue::Nil | TemplateValue::Function(_) => Value::Null,
        TemplateValue::Bool(on) => Value::Bool(*on),
        TemplateValue::String(text) => Value::String(escape::plain(text).into_owned()),
        TemplateValue::Number(number) => match number.kind() {
            gtmpl_ng::NumberKind::Unsigned(number) => number.into(),
            gtmpl_ng::NumberKind::Signed(number) => number.into(),
            gtmpl_ng::NumberKind::Float(number) => number.into(),
        },
        TemplateValue::Array(items) => items.iter().map(json).collect(),
        TemplateValue::Map(members) | TemplateValue::Object(members) => members
            .iter()
            .filter(|(key, _)| !key.starts_with(HIDDEN))
            .map(|(key, value)| (escape::plain(key).into_owned(), json(value)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

/// Returns a hidden member of an Istio API message, kept for functions that take the whole message.
pub(crate) fn hidden<'a>(message: &'a TemplateValue, key: &str) -> Option<&'a TemplateValue> {
    match message {
        TemplateValue::Object(members) => members.get(key),
        _ => None,
    }
}

fn untyped(
    value: &Value,
    with: impl Fn(&str) -> Cow<'_, str> + Copy,
    with_key: impl Fn(&str) -> Cow<'_, str> + Copy,
) -> TemplateValue {
    let within = |value| untyped(value, with, with_key);
    match value {
        // In Go, a field of a nil in parentheses is no value, as with an absent key. The engine
        // allows this only for an absent value.
        Value::Null => TemplateValue::NoValue,
        Value::Bool(on) => TemplateValue::Bool(*on),
        Value::Number(number) => crate::template::values::json::number(number),
        Value::String(text) => TemplateValue::String(with(text).into_owned()),
        Value::Array(items) => TemplateValue::Array(items.iter().map(within).collect()),
        Value::Object(members) => {
            let members = members.iter();
            TemplateValue::Map(
                members.map(|(key, value)| (with_key(key).into_owned(), within(value))).collect(),
            )
        }
    }
}

fn number(number: &serde_json::Number) -> TemplateValue {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(number), ..) => TemplateValue::from(number),
        (_, Some(number), _) => TemplateValue::from(number),
        (_, _, number) => TemplateValue::from(number.unwrap_or_default()),
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
