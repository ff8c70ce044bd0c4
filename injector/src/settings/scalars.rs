//! Scalars of Helm values.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A value that templates print as text: a string, a number or a boolean; empty for `null`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Text(String);

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Self::default()),
            Value::String(text) => Ok(Self(text)),
            scalar @ (Value::Bool(_) | Value::Number(_)) => Ok(Self(scalar.to_string())),
            other => Err(serde::de::Error::custom(format!("{other} where text is expected"))),
        }
    }
}

/// A boolean; false for `null`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Switch(bool);

impl Switch {
    /// True if the value is true.
    pub fn on(self) -> bool {
        self.0
    }
}

impl<'de> Deserialize<'de> for Switch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Self(false)),
            Value::Bool(on) => Ok(Self(on)),
            Value::String(text) if text.is_empty() => Ok(Self(false)),
            other => {
                Err(serde::de::Error::custom(format!("{other} where true or false is expected")))
            }
        }
    }
}
