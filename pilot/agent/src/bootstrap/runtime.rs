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
