//! JSON `null`, treated as an absent key: Go's JSON decoder, and with it the API server, does the
//! same. A key without a value in YAML means this too.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Returns the default for `null`, for use in `#[serde(default, deserialize_with = "or_default")]`.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Removes null members and items at any depth.
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
