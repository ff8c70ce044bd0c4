//! Values in protobuf's canonical JSON.

use documents::nulls::without_nulls;
use go_duration::DurationError;
use go_types::{Field, FieldKind, Type};
use serde_json::{Map, Number, Value, json};

/// Returns a field's value in canonical form: durations in seconds, enumerations by name, and field
/// names in camel case. Messages lose unknown fields and fields with a zero value.
///
/// An error calls the field `name`, and says which values are allowed.
pub(crate) fn canonical(kind: FieldKind, name: &str, value: &Value) -> Result<Value, String> {
    let wrong = |allowed: &str| Err(format!("{name}: {value} is not {allowed}"));
    match (kind, value) {
        (FieldKind::Pointer(kind) | FieldKind::Wrapper(kind), _) => canonical(*kind, name, value),
        (FieldKind::Struct(of), Value::Object(members)) => message(of, name, members),
        (FieldKind::List(kind), Value::Array(items)) => {
            let items = items.iter().enumerate();
            items.map(|(index, item)| item_of(*kind, &format!("{name}[{index}]"), item)).collect()
        }
        (FieldKind::Map(kind), Value::Object(entries)) => {
            let entries = entries.iter();
            let entry = |(key, entry): (&String, &Value)| {
                Ok((key.clone(), entry_of(*kind, &format!("{name}.{key}"), entry)?))
            };
            entries.map(entry).collect::<Result<Map<_, _>, _>>().map(Value::Object)
        }
        (FieldKind::Bool, Value::Bool(_)) | (FieldKind::String, Value::String(_)) => {
            Ok(value.clone())
        }
        (FieldKind::Int(bits), _) => match whole(value) {
            // Protobuf writes 64-bit integers as text, because a double cannot represent all of
            // them.
            Some(number) if bits > 32 => Ok(Value::String(number.to_string())),
            Some(number) => i32::try_from(number).map(Value::from).or(wrong(WHOLE)),
            None => wrong(WHOLE),
        },
        (FieldKind::Unsigned, _) => match whole(value).map(u32::try_from) {
            Some(Ok(number)) => Ok(Value::from(number)),
            _ => wrong("a whole number from 0 to 4294967295"),
        },
        (FieldKind::Float, _) => {
            let number = match value {
                Value::String(text) => serde_json::from_str::<Number>(text).ok(),
                Value::Number(number) => Some(number.clone()),
                _ => None,
            };
            let number = number.and_then(|number| number.as_f64());
            number.filter(|number: &f64| number.is_finite()).map_or(wrong("a number"), |number| {
                Ok(whole(&json!(number)).map_or(json!(number), Value::from))
            })
        }
        (FieldKind::Duration, _) => match value.as_str().map(duration) {
            Some(Ok(duration)) => Ok(Value::String(duration)),
            Some(Err(DurationError::TooLong { .. })) => wrong("a duration of at most 2562047h"),
            _ => wrong("a duration such as 45s or 1m30s"),
        },
        (FieldKind::Enum(words), _) => {
            let number = || whole(value).filter(|_| value.is_number());
            let by_number = || words.get(usize::try_from(number()?).ok()?).copied();
            let by_name = || words.iter().copied().find(|word| value.as_str() == Some(word));
            by_name()
                .or_else(by_number)
                .map_or_else(|| wrong(&one_of(words)), |word| Ok(json!(word)))
        }
        (FieldKind::Bool, _) => wrong("true or false"),
        (FieldKind::String, _) => wrong("a string"),
        (FieldKind::List(_), _) => wrong("a list"),
        (FieldKind::Map(_) | FieldKind::Struct(_), _) => wrong("a mapping"),
        (FieldKind::Any | FieldKind::IntOrString | FieldKind::Quantity | FieldKind::Time, _) => {
            Ok(without_nulls(value.clone()))
        }
    }
}

/// True if the JSON of a message omits the field because its value is zero. Presence counts for a
/// wrapped scalar, a message and a member of a `oneof`, whatever the value.
pub(crate) fn is_omitted(field: &Field, value: &Value) -> bool {
    !field.is_one_of()
        && match (field.kind, value) {
            (FieldKind::Enum(words), Value::String(word)) => words.first() == Some(&word.as_str()),
            (FieldKind::Bool, value) => *value == false,
            (FieldKind::Int(_) | FieldKind::Unsigned | FieldKind::Float, value) => {
                whole(value) == Some(0)
            }
            (FieldKind::String, Value::String(text)) => text.is_empty(),
            (FieldKind::List(_), Value::Array(items)) => items.is_empty(),
            (FieldKind::Map(_), Value::Object(entries)) => entries.is_empty(),
            _ => false,
        }
}

/// Parses an integer in any form that protobuf's JSON accepts: `2`, `"2"` and `2.0`. Text is parsed
/// as JSON: `" 2 "` and `"-0"` are numbers; `"+2"`, `"02"` and `"2.0"` are not.
pub(crate) fn whole(value: &Value) -> Option<i64> {
    match value {
        // serde_json parses `-0` as a float only.
        Value::String(text) if text.trim() == "-0" => Some(0),
        Value::String(text) => serde_json::from_str(text).ok(),
        Value::Number(number) => number.as_i64().or_else(|| {
            let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
            number.to_string().parse().ok()
        }),
        _ => None,
    }
}

fn message(of: &Type, name: &str, members: &Map<String, Value>) -> Result<Value, String> {
    let mut known = Map::new();
    let mut chosen = None;
    for (member, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        let Some(field) = of.field(member) else { continue };
        let value = canonical(field.kind, &format!("{name}.{member}"), value)?;
        if let Some(other) = field.is_one_of().then(|| chosen.replace(member)).flatten() {
            return Err(format!("{name}: only one of {other} and {member} can be given"));
        }
        if !is_omitted(field, &value) {
            known.insert(field.json.to_owned(), value);
        }
    }
    Ok(Value::Object(known))
}

/// The item of a list: `null` is the zero value, as in Istio.
fn item_of(kind: FieldKind, name: &str, item: &Value) -> Result<Value, String> {
    if item.is_null() { Ok(zero(kind)) } else { canonical(kind, name, item) }
}

fn zero(kind: FieldKind) -> Value {
    match kind {
        FieldKind::Pointer(kind) | FieldKind::Wrapper(kind) => zero(*kind),
        FieldKind::Struct(_) | FieldKind::Map(_) => json!({}),
        FieldKind::Enum(words) => json!(words.first()),
        FieldKind::String => json!(""),
        FieldKind::Bool => json!(false),
        FieldKind::Int(_) | FieldKind::Unsigned | FieldKind::Float => json!(0),
        FieldKind::List(_) => json!([]),
        FieldKind::Duration => json!("0s"),
        FieldKind::Any | FieldKind::IntOrString | FieldKind::Quantity | FieldKind::Time => {
            Value::Null
        }
    }
}
/// Returns the canonical form of a map entry. A number or boolean becomes text in a map of strings.
fn entry_of(kind: FieldKind, name: &str, entry: &Value) -> Result<Value, String> {
    match (kind, entry) {
        (_, Value::Null) => Ok(zero(kind)),
        (FieldKind::String, Value::Bool(_) | Value::Number(_)) => {
            Ok(Value::String(entry.to_string()))
        }
        _ => canonical(kind, name, entry),
    }
}

fn one_of(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// Returns the canonical JSON form of a `google.protobuf.Duration`: seconds with zero, three, six
/// or nine decimals. The text has Go's syntax (`1m30s`, `10ms`), as Istio requires.
fn duration(text: &str) -> Result<String, DurationError> {
    let duration = go_duration::non_negative(text)?;
    let whole = duration.as_secs();
    let fraction = format!("{:09}", duration.subsec_nanos());
    let fraction = fraction.trim_end_matches('0');
    Ok(match fraction.len().div_ceil(3) * 3 {
        0 => format!("{whole}s"),
        width => format!("{whole}.{fraction:0<width$}s"),
    })
}

const WHOLE: &str = "a whole number";
