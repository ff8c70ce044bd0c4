//! `null`, which says as little as a key that is left out: so Go reads it, in which API servers are
//! written, and so a key without a value is meant.

use serde::{Deserialize, Deserializer};

/// For `#[serde(default, deserialize_with = "or_default")]`: `null` is the default too.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
