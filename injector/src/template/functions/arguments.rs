//! Conversion of function arguments.

use std::collections::HashMap;
use std::sync::LazyLock;

use gtmpl_ng::{FuncError, NumberKind, Value as TemplateValue};

use super::error;
use crate::template::escape;
use crate::template::values::type_tag;

/// Returns the arguments if there are exactly this many.
pub(super) fn exactly<'a, const N: usize>(
    name: &str,
    arguments: &'a [TemplateValue],
) -> Result<&'a [TemplateValue; N], FuncError> {
    arguments
        .try_into()
        .map_err(|_| error(format!("{name} takes {N} arguments, not {}", arguments.len())))
}

/// Returns the first N arguments and the rest; there must be at least N.
pub(super) fn at_least<'a, const N: usize>(
    name: &str,
    arguments: &'a [TemplateValue],
) -> Result<(&'a [TemplateValue; N], &'a [TemplateValue]), FuncError> {
    arguments.split_first_chunk::<N>().ok_or_else(|| {
        error(format!("{name} takes {N} arguments or more, not {}", arguments.len()))
    })
}

/// True if the value is nil or absent.
pub(super) fn is_nothing(value: &TemplateValue) -> bool {
    matches!(value, TemplateValue::Nil | TemplateValue::NoValue)
}

/// Returns a string; an absent value is an empty string, like an unset Go field.
pub(super) fn text(value: &TemplateValue) -> Result<&str, FuncError> {
    match value {
        TemplateValue::String(text) => {
            type_tag::problem(text).map_or(Ok(text), |problem| Err(error(problem)))
        }
        TemplateValue::NoValue | TemplateValue::Nil => Ok(""),
        other => Err(error(format!("{} where a string is expected", shown(other)))),
    }
}

/// Returns any value as Go prints it.
pub(super) fn printed(value: &TemplateValue) -> String {
    match value {
        TemplateValue::String(text) => text.clone(),
        TemplateValue::NoValue => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the items of a list; an absent value is an empty list.
pub(super) fn list(value: &TemplateValue) -> Result<&[TemplateValue], FuncError> {
    match value {
        TemplateValue::Array(items) => Ok(items),
        TemplateValue::NoValue | TemplateValue::Nil => Ok(&[]),
        other => Err(error(format!("{} where a list is expected", shown(other)))),
    }
}

/// Returns the member of a mapping under a key from the pod, which the mapping may hold guarded.
pub(super) fn member<'a>(
    members: &'a HashMap<String, TemplateValue>,
    key: &str,
) -> Option<&'a TemplateValue> {
    entry(members, key).map(|(_, value)| value)
}

/// Returns the member together with the mapping's own key.
pub(super) fn entry<'a>(
    members: &'a HashMap<String, TemplateValue>,
    key: &str,
) -> Option<(&'a String, &'a TemplateValue)> {
    members.get_key_value(key).or_else(|| {
        let key = escape::plain(key);
        members.iter().find(|(name, _)| escape::plain(name) == key)
    })
}

/// Returns the members of a mapping; an absent value is an empty mapping.
pub(super) fn mapping(value: &TemplateValue) -> Result<&HashMap<String, TemplateValue>, FuncError> {
    static EMPTY: LazyLock<HashMap<String, TemplateValue>> = LazyLock::new(HashMap::new);
    match value {
        TemplateValue::Map(members) => Ok(members),
        TemplateValue::NoValue | TemplateValue::Nil => Ok(&EMPTY),
        other => Err(error(format!("{} where a mapping is expected", shown(other)))),
    }
}

/// Converts to an integer as sprig does: anything that is not a number is 0.
pub(super) fn whole(value: &TemplateValue) -> i64 {
    match value {
        TemplateValue::Bool(on) => i64::from(*on),
        TemplateValue::Number(number) => match number.kind() {
            NumberKind::Unsigned(number) => i64::try_from(number).unwrap_or(i64::MAX),
            NumberKind::Signed(number) => number,
            #[expect(clippy::cast_possible_truncation, reason = "Go's conversion truncates")]
            NumberKind::Float(number) => number as i64,
        },
        TemplateValue::String(text) => literal(text).unwrap_or_default(),
        _ => 0,
    }
}

/// Parses a number in Go's syntax: `0x1f`, `0b1`, `0o17` and `017`. Only zeros may follow a decimal
/// point.
fn literal(text: &str) -> Option<i64> {
    let text = match text.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => {
            whole
        }
        _ => text,
    };
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let lower = unsigned.to_ascii_lowercase();
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (&lower[..], 10),
    };
    let starts = digits.starts_with(|c: char| c.is_ascii_alphanumeric());
    starts.then(|| i64::from_str_radix(digits, radix).ok().map(|number| sign * number))?
}

/// Returns a size or a count: an integer between 0 and [`MOST`].
pub(super) fn count(name: &str, value: &TemplateValue) -> Result<usize, FuncError> {
    let number = whole(value);
    let count = usize::try_from(number).ok().filter(|count| *count <= MOST);
    count.ok_or_else(|| error(format!("{name}: {number} is not between 0 and {MOST}")))
}

/// Converts to a floating-point number as sprig does: anything that is not a number is 0.
pub(super) fn fraction(value: &TemplateValue) -> f64 {
    match value {
        TemplateValue::Number(number) => match number.kind() {
            NumberKind::Float(number) => number,
            #[expect(clippy::cast_precision_loss, reason = "Go's conversion rounds")]
            NumberKind::Unsigned(number) => number as f64,
            #[expect(clippy::cast_precision_loss, reason = "Go's conversion rounds")]
            NumberKind::Signed(number) => number as f64,
        },
        TemplateValue::String(text) => text.parse().unwrap_or_default(),
        TemplateValue::Bool(on) => f64::from(u8::from(*on)),
        _ => 0.0,
    }
}

/// True if Go and sprig treat the value as empty.
pub(super) fn is_empty(value: &TemplateValue) -> bool {
    match value {
        TemplateValue::NoValue | TemplateValue::Nil => true,
        TemplateValue::Bool(on) => !on,
        TemplateValue::String(text) => text.is_empty(),
        TemplateValue::Array(items) => items.is_empty(),
        TemplateValue::Map(members) => members.is_empty(),
        TemplateValue::Number(_) => fraction(value) == 0.0,
        TemplateValue::Function(_) | TemplateValue::Object(_) => false,
    }
}

/// Returns the members of a mapping, sorted by key.
pub(super) fn sorted(members: &HashMap<String, TemplateValue>) -> Vec<(&String, &TemplateValue)> {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by_key(|(key, _)| *key);
    sorted
}

/// Builds a list of strings.
pub(super) fn strings(items: impl IntoIterator<Item = impl Into<String>>) -> TemplateValue {
    TemplateValue::Array(items.into_iter().map(|item| TemplateValue::String(item.into())).collect())
}

fn shown(value: &TemplateValue) -> String {
    if let Some(of) = type_tag::tagged_type(value) {
        return format!("a {}", of.name);
    }
    let text = value.to_string();
    let kind = match value {
        TemplateValue::String(_) => "the string",
        TemplateValue::Number(_) => "the number",
        TemplateValue::Array(_) => "the list",
        TemplateValue::Map(_) | TemplateValue::Object(_) => "the mapping",
        _ => "the value",
    };
    format!("{kind} {text:.60}")
}

/// Most bytes of a text and items of a list, more than any pod template needs.
const MOST: usize = 1 << 20;
