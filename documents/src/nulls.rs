//! `null`, which says as little as a key that is left out: so Go reads it, in which API servers are
//! written, and so a key without a value is meant.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// For `#[serde(default, deserialize_with = "or_default")]`: `null` is the default too.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The value without the members and items that are null, however deep.
pub fn without_nulls(mut value: Value) -> Value {
    match &mut value {
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            for item in items {
                *item = without_nulls(item.take());
            }
        }
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            for member in members.values_mut() {
                *member = without_nulls(member.take());
            }
        }
        _ => {}
    }
    value
}
