//! Variables with a JSON object, read as Go's decoder does.

use documents::nulls::without_nulls;
use serde::de::{Error as _, Unexpected};
use serde_json::{Map, Value};

/// Parses an object. `null` is an absent member, and at the top an empty object.
pub(crate) fn object(text: &str) -> Result<Map<String, Value>, serde_json::Error> {
    match serde_json::from_str(text).map(without_nulls)? {
        Value::Null => Ok(Map::new()),
        Value::Object(members) => Ok(members),
        other => {
            let found = match other {
                Value::Array(_) => Unexpected::Seq,
                _ => Unexpected::Other("a single value"),
            };
            Err(serde_json::Error::invalid_type(found, &"an object"))
        }
    }
}
