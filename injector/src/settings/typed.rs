//! Documents as types.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a document as a type; the error names the key at fault.
pub(super) fn typed<T: DeserializeOwned>(document: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let path = error.path().to_string();
        match path.as_str() {
            "." => error.into_inner().to_string(),
            path => format!("{path}: {}", error.into_inner()),
        }
    })
}
