//! Warnings about valid configuration documents.

use std::fmt;

use serde_json::Value;

use crate::unknown_keys::UnknownKey;
use crate::yaml::{self, YamlError};

/// A valid but suspicious part of a document.
///
/// The displayed form names the document, the key and the problem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    /// The document, as in `Document::source`.
    pub origin: String,
    /// The path of the key in the document.
    pub path: String,
    /// The problem, with a "did you mean" suggestion if there is one.
    pub problem: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.origin, self.path, self.problem)
    }
}

/// The path of a key, and its problem.
pub type Oddity = (String, String);

/// Returns the warning about an unknown key.
pub fn unknown(key: UnknownKey) -> Oddity {
    let problem = match key.near {
        Some(near) => format!("unknown key; did you mean {near}?"),
        None => "unknown key".to_owned(),
    };
    (key.path, problem)
}

/// Returns the document as Istio parses it, and a warning about the ignored part.
pub fn read(text: &str) -> Result<(Value, Option<Oddity>), YamlError> {
    let (document, passed_over) = yaml::parse_first(text)?;
    let oddity = passed_over.map(|error| {
        let place = format!("line {}", error.line);
        (place, format!("{}; {LAST_COUNTS}", error.problem))
    });
    Ok((document, oddity))
}

/// Explains Istio's result for a document that a strict parser rejects.
pub const LAST_COUNTS: &str = "of a repeated key the last counts, of several documents the first";
