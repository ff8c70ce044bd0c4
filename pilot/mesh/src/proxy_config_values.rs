//! Typed access to the fields of `ProxyConfig` by path, such as `tracing.zipkin.address`.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::proxy_config::ProxyConfig;

impl ProxyConfig {
    /// Returns the value of a field, or of a field of a message; `None` if it is unset.
    pub fn value_at(&self, path: &str) -> Option<&Value> {
        let mut keys = path.split('.');
        let first = self.fields().get(keys.next()?)?;
        keys.try_fold(first, |value, key| value.get(key))
    }

    /// Returns a text; empty if the field is unset. Protobuf's JSON omits an empty text.
    pub fn text_at(&self, path: &str) -> &str {
        self.value_at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a whole number.
    pub fn number_at(&self, path: &str) -> Option<i64> {
        self.value_at(path)?.as_i64()
    }

    /// Returns a switch; `None` if it is unset.
    pub fn switch_at(&self, path: &str) -> Option<bool> {
        self.value_at(path)?.as_bool()
    }

    /// Returns a duration, which is never negative.
    pub fn duration_at(&self, path: &str) -> Option<Duration> {
        go_duration::non_negative(self.value_at(path)?.as_str()?).ok()
    }

    /// Returns a list of texts; empty if the field is unset.
    pub fn texts_at(&self, path: &str) -> Vec<&str> {
        let items = self.value_at(path).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Returns a message or a map; `None` if it is unset.
    pub fn message_at(&self, path: &str) -> Option<&Map<String, Value>> {
        self.value_at(path)?.as_object()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_found_by_path() {
        let mut config = ProxyConfig::default();
        let layer = json!({
            "tracing": {"zipkin": {"address": "zipkin:9411"}}, "drainDuration": "1m",
            "terminationDrainDuration": "1.5s", "extraStatTags": ["a", "b"], "concurrency": 0,
            "statsCompression": false,
        });
        config.overlay(&layer).unwrap();
        assert_eq!(config.text_at("tracing.zipkin.address"), "zipkin:9411");
        assert_eq!(config.text_at("tracing.datadog.address"), "");
        assert_eq!(config.duration_at("drainDuration"), Some(Duration::from_secs(60)));
        let termination = config.duration_at("terminationDrainDuration");
        assert_eq!(termination, Some(Duration::from_millis(1500)));
        assert_eq!(config.texts_at("extraStatTags"), ["a", "b"]);
        assert_eq!(config.number_at("concurrency"), Some(0));
        assert_eq!(config.switch_at("statsCompression"), Some(false));
        assert!(config.message_at("tracing").is_some() && config.message_at("image").is_none());
    }
}
