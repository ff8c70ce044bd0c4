//! JSON objects as Go reads them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

/// JSON object whose fields are parsed when they are needed. Of two fields of one name, the last one
/// counts.
#[derive(Debug)]
pub struct JsonObject<'a>(BTreeMap<String, &'a RawValue>);

/// Error of a field, which names it.
#[derive(Debug, Error)]
#[error("{name}: {error}")]
pub struct FieldError {
    name: String,
    #[source]
    error: serde_json::Error,
}

impl<'a> JsonObject<'a> {
    /// Parses the object, and its fields as far as their ends have to be found.
    pub fn parse(text: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text).map(Self)
    }

    /// Returns the field; `None` if it is absent or null.
    pub fn field<T: Deserialize<'a>>(&self, name: &str) -> Result<Option<T>, FieldError> {
        let Some(value) = self.0.get(name).filter(|value| value.get() != "null") else {
            return Ok(None);
        };
        let value = serde_json::from_str(value.get());
        value.map(Some).map_err(|error| FieldError { name: name.to_owned(), error })
    }
}
