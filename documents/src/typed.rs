//! Deserialisation of documents.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Deserialises a document. The error names the path of the invalid key.
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

/// Rewrites serde's error message in terms of YAML.
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
