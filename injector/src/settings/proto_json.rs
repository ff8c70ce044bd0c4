//! Values in protobuf's canonical JSON.

use serde_json::{Map, Value, json};

use crate::absent::without_nulls;
use crate::go_types::{Field, Kind, Type};

/// The value of a field in canonical form: durations in seconds, enumerations by name, names of
/// fields in camel case, and messages without fields that are zero or that nobody knows.
///
/// An error calls the field `name`, and says what is allowed.
pub(super) fn canonical(kind: Kind, name: &str, value: &Value) -> Result<Value, String> {
    let wrong = |allowed: &str| Err(format!("{name}: {value} is not {allowed}"));
    match (kind, value) {
        (Kind::Pointer(kind) | Kind::Wrapper(kind), _) => canonical(*kind, name, value),
        (Kind::Struct(of), Value::Object(members)) => message(of, name, members),
        (Kind::List(kind), Value::Array(items)) => {
            let items = items.iter().enumerate().filter(|(_, item)| !item.is_null());
            items.map(|(index, item)| canonical(*kind, &format!("{name}[{index}]"), item)).collect()
        }
        (Kind::Map(kind), Value::Object(entries)) => {
            let entries = entries.iter().filter(|(_, entry)| !entry.is_null());
            let entry = |(key, entry): (&String, &Value)| {
                Ok((key.clone(), entry_of(*kind, &format!("{name}.{key}"), entry)?))
            };
            entries.map(entry).collect::<Result<Map<_, _>, _>>().map(Value::Object)
        }
        (Kind::Bool, Value::Bool(_)) | (Kind::String, Value::String(_)) => Ok(value.clone()),
        (Kind::Int(bits), _) => match whole(value) {
            // A double holds no number of 64 bits, so that protobuf writes it as text.
            Some(number) if bits > 32 => Ok(Value::String(number.to_string())),
            Some(number) => i32::try_from(number).map(Value::from).or(wrong(WHOLE)),
            None => wrong(WHOLE),
        },
        (Kind::Float, _) => {
            let number = match value {
                Value::String(text) => text.parse().ok(),
                value => value.as_f64(),
            };
            number.filter(|number: &f64| number.is_finite()).map_or(wrong("a number"), |number| {
                Ok(whole(&json!(number)).map_or(json!(number), Value::from))
            })
        }
        (Kind::Duration, _) => match value.as_str().and_then(duration) {
            Some(duration) => Ok(Value::String(duration)),
            None => wrong("a duration such as 45s or 1m30s"),
        },
        (Kind::Enum(words), _) => {
            let by_number = || words.get(usize::try_from(whole(value)?).ok()?).copied();
            let by_name = || words.iter().copied().find(|word| value.as_str() == Some(word));
            by_name()
                .or_else(by_number)
                .map_or_else(|| wrong(&one_of(words)), |word| Ok(json!(word)))
        }
        (Kind::Bool, _) => wrong("true or false"),
        (Kind::String, _) => wrong("a string"),
        (Kind::List(_), _) => wrong("a list"),
        (Kind::Map(_) | Kind::Struct(_), _) => wrong("a mapping"),
        (Kind::Any | Kind::IntOrString | Kind::Quantity | Kind::Time, _) => {
            Ok(without_nulls(value.clone()))
        }
    }
}

/// Whether the JSON of a message leaves the field out. A wrapped scalar, a message and one of several
/// are there or not, whatever is in them.
pub(super) fn is_omitted(field: &Field, value: &Value) -> bool {
    !field.is_one_of()
        && match (field.kind, value) {
            (Kind::Enum(words), Value::String(word)) => words.first() == Some(&word.as_str()),
            (Kind::Bool, value) => *value == false,
            (Kind::Int(_) | Kind::Float, value) => whole(value) == Some(0),
            (Kind::String, Value::String(text)) => text.is_empty(),
            (Kind::List(_), Value::Array(items)) => items.is_empty(),
            (Kind::Map(_), Value::Object(entries)) => entries.is_empty(),
            _ => false,
        }
}

/// A number as protobuf's JSON takes it: `2`, `"2"` and `2.0`.
pub(super) fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.parse().ok(),
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

/// The entry of a map: what is read as a number or a switch is text where text is asked for.
fn entry_of(kind: Kind, name: &str, entry: &Value) -> Result<Value, String> {
    match (kind, entry) {
        (Kind::String, Value::Bool(_) | Value::Number(_)) => Ok(Value::String(entry.to_string())),
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

/// The canonical JSON form of a `google.protobuf.Duration` that is written as Go does, which is how
/// Istio reads one (`1m30s`, `10ms`): seconds, with none, three, six or nine decimals.
fn duration(text: &str) -> Option<String> {
    let nanoseconds = u64::try_from(go_duration::parse(text).ok()?).ok()?;
    let (whole, fraction) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let fraction = format!("{fraction:09}");
    let fraction = fraction.trim_end_matches('0');
    Some(match fraction.len().div_ceil(3) * 3 {
        0 => format!("{whole}s"),
        width => format!("{whole}.{fraction:0<width$}s"),
    })
}

const WHOLE: &str = "a whole number";
