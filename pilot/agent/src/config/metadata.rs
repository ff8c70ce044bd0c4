//! Metadata of the node that the environment sets.

use mesh::proxy_config::ProxyConfig;
use serde_json::{Map, Value};

use super::error::ConfigError;
use crate::environment::variables::{ISTIO_META, ISTIO_METAJSON};
use crate::environment::{Environment, EnvironmentError, parse_bool};

/// Returns the metadata: entries of `proxyMetadata` that begin with `ISTIO_META_`, under the
/// variables `ISTIO_META_*`, under `ISTIO_METAJSON_*`.
pub(super) fn metadata(
    environment: &Environment,
    config: &ProxyConfig,
) -> Result<Map<String, Value>, ConfigError> {
    let of_config = config
        .all_metadata()
        .filter_map(|(name, value)| Some((name.strip_prefix(ISTIO_META.prefix)?, value)));
    let mut metadata: Map<String, Value> = of_config
        .chain(environment.family(ISTIO_META))
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    for (key, text) in environment.family(ISTIO_METAJSON) {
        let Ok(members) = serde_json::from_str::<Map<String, Value>>(text) else {
            return Err(ConfigError::Variable(EnvironmentError {
                variable: format!("{}{key}", ISTIO_METAJSON.prefix),
                value: documents::excerpt::shorten(text).into_owned(),
                expected: "a JSON object",
            }));
        };
        match key {
            // The object is the value itself.
            "LABELS" | "ANNOTATIONS" => {
                metadata.insert(key.to_owned(), Value::Object(members));
            }
            _ => metadata.extend(members),
        }
    }
    Ok(metadata)
}

/// Returns the text of a key; empty if it is unset.
pub(super) fn text<'a>(metadata: &'a Map<String, Value>, key: &str) -> &'a str {
    metadata.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Parses a switch, which is unset by default.
pub(super) fn switch(metadata: &Map<String, Value>, key: &str) -> Result<bool, ConfigError> {
    let parsed = match metadata.get(key) {
        None | Some(Value::Null) => Some(false),
        Some(Value::Bool(on)) => Some(*on),
        Some(Value::String(text)) if text.is_empty() => Some(false),
        Some(Value::String(text)) => parse_bool(text),
        Some(_) => None,
    };
    parsed.ok_or_else(|| wrong(metadata, key, "true or false"))
}

/// Returns the error for an invalid value of a key.
pub(super) fn wrong(
    metadata: &Map<String, Value>,
    key: &str,
    expected: &'static str,
) -> ConfigError {
    let value = metadata.get(key).map_or_else(String::new, |value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    ConfigError::Variable(EnvironmentError {
        variable: format!("{}{key}", ISTIO_META.prefix),
        value: documents::excerpt::shorten(&value).into_owned(),
        expected,
    })
}
