//! What there is to say of documents that can be used.

use std::fmt;

use serde_json::Value;

use crate::unknown_keys::UnknownKey;
use crate::yaml::{self, YamlError};

/// Something in a document that is accepted, and hardly meant.
///
/// The displayed form names the document, the key and what is odd.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    /// The document, as in [`Document::source`](injector::settings::Document::source).
    pub origin: String,
    /// The key's path in it.
    pub path: String,
    /// What is odd, with a near miss where there is one.
    pub problem: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.origin, self.path, self.problem)
    }
}

/// The path of a key and what is odd about it.
pub type Oddity = (String, String);

/// An unknown key, as an oddity of its document.
pub fn unknown(key: UnknownKey) -> Oddity {
    let problem = match key.near {
        Some(near) => format!("unknown key; did you mean {near}?"),
        None => "unknown key".to_owned(),
    };
    (key.path, problem)
}

/// The document as Istio reads it, and what of it is passed over so.
pub fn read(text: &str) -> Result<(Value, Option<Oddity>), YamlError> {
    let (document, passed_over) = yaml::parse_first(text)?;
    let oddity = passed_over.map(|error| {
        let place = format!("line {}", error.line);
        (place, format!("{}; {LAST_COUNTS}", error.problem))
    });
    Ok((document, oddity))
}

/// What Istio makes of what a strict reader refuses.
pub const LAST_COUNTS: &str = "of a repeated key the last counts, of several documents the first";
