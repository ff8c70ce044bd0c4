//! Documents as types.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a document as a type; the error names the key at fault.
pub fn typed<T: DeserializeOwned>(document: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let path = error.path().to_string();
        let problem = problem(&error.into_inner().to_string());
        match path.as_str() {
            "." => problem,
            path => format!("{path}: {problem}"),
        }
    })
}

/// What is wrong, in the words of YAML instead of Rust's.
fn problem(message: &str) -> String {
    let parts =
        message.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected "));
    let Some((given, expected)) = parts else {
        return message.to_owned();
    };
    let named = |word: &str| match word {
        "a map" | "map" => "a mapping".to_owned(),
        "a sequence" | "sequence" => "a list".to_owned(),
        word if word.starts_with("struct ") => "a mapping".to_owned(),
        word => word.to_owned(),
    };
    format!("{} where {} is expected", named(given), named(expected))
}
