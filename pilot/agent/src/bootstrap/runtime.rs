//! Layered runtime: a static layer, and one that the admin interface changes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::config::RuntimeValue;
use crate::config::envoy::CONNECTIONS_RUNTIME;

/// Returns the layers.
pub(super) fn layers(values: &BTreeMap<String, RuntimeValue>) -> Value {
    let mut layer = Map::new();
    // Routes of a large mesh have large regular expressions.
    layer.insert("re2.max_program_size.error_level".to_owned(), 32768.into());
    // The older parser of the inspector for HTTP tells by the first bytes what has no method of HTTP.
    // The newer one waits for the end of the line, for ever if none comes. The node says so by
    // `HTTP_BY_METHOD`.
    layer.insert(
        "envoy.reloadable_features.http_inspector_use_balsa_parser".to_owned(),
        false.into(),
    );
    // The overload manager has this limit.
    for (key, value) in values.iter().filter(|(key, _)| *key != CONNECTIONS_RUNTIME) {
        let value = match value {
            RuntimeValue::Switch(on) => (*on).into(),
            RuntimeValue::Text(text) => text.as_str().into(),
        };
        layer.insert(key.clone(), value);
    }
    json!({ "layers": [
        { "name": "static", "static_layer": layer },
        { "name": "admin", "admin_layer": {} },
    ] })
}
