//! `ProxyConfig`: the configuration of one proxy, and the overlay of its layers.

use documents::unknown_keys::{Shape, UnknownKey, unknown_keys};
use go_types::PROXY_CONFIG;
use serde_json::{Map, Value};

use crate::proxy_field::{FIELDS, Field, field};

/// Istio's `ProxyConfig` as canonical protobuf JSON, field by field.
///
/// The default is Istio's; [`overlay`](Self::overlay) puts a layer on top.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyConfig {
    fields: Map<String, Value>,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        let fields = FIELDS.iter();
        let fields = fields.filter_map(|field| Some((field.name.to_owned(), field.initial()?)));
        Self { fields: fields.collect() }
    }
}

impl ProxyConfig {
    /// Puts a layer on top. A field of the layer replaces the field below, nested messages
    /// included. Entries of `proxyMetadata` and members of `proxyHeaders` are replaced one by one.
    /// A field with a zero value that Istio omits (`0`, `""`, the first name of an enumeration)
    /// leaves the field below.
    ///
    /// An error names the field, the value and the allowed values. After an error the configuration
    /// is unchanged.
    pub fn overlay(&mut self, layer: &Value) -> Result<(), String> {
        self.put(layer, Zero::Omitted)
    }

    /// Applies a layer as [`overlay`](Self::overlay), but zero values count. Istio parses the
    /// mesh's `defaultConfig` like this, and `kube-inject` a pod's annotation.
    pub fn apply(&mut self, layer: &Value) -> Result<(), String> {
        self.put(layer, Zero::Counts)
    }

    fn put(&mut self, layer: &Value, zero: Zero) -> Result<(), String> {
        let Value::Object(layer) = layer else {
            return Err("expected a mapping with ProxyConfig's fields".to_owned());
        };
        let mut checked = Vec::<(&Field, Value)>::with_capacity(layer.len());
        for (name, value) in layer {
            // An unknown field may be of a later Istio. As in Istio, it has no effect.
            let Some(field) = field(name).filter(|_| !value.is_null()) else {
                continue;
            };
            if let Some((other, _)) = checked.iter().find(|(other, _)| other.excludes(field)) {
                return Err(format!("only one of {} and {name} can be given", other.name));
            }
            checked.push((field, field.canonical(name, value)?));
        }
        for (field, value) in checked {
            match (value, self.fields.get_mut(field.name)) {
                (Value::Object(members), Some(Value::Object(below))) if field.unites() => {
                    below.extend(members);
                }
                (value, _) if zero == Zero::Omitted && field.is_zero(&value) => {}
                (value, _) => {
                    self.fields.retain(|name, _| {
                        !FIELDS.iter().any(|other| other.name == name && field.excludes(other))
                    });
                    self.fields.insert(field.name.to_owned(), value);
                }
            }
        }
        Ok(())
    }

    /// Returns the canonical name of a field, which may be spelt as in protobuf.
    pub fn name_of(name: &str) -> Option<&'static str> {
        field(name).map(|field| field.name)
    }

    /// Returns the canonical form of a value of the field `name`. The error uses the user's
    /// spelling.
    pub fn value_of(name: &str, called: &str, value: &Value) -> Result<Value, String> {
        field(name).map_or_else(|| Ok(value.clone()), |field| field.canonical(called, value))
    }

    /// Returns the fields of a layer that Istio does not know.
    pub fn unknown_keys(layer: &Value) -> Vec<UnknownKey> {
        unknown_keys(layer, Shape::Message(PROXY_CONFIG))
    }

    /// Returns the layer's zero values that have no effect, since the value in force differs.
    pub fn left_by<'a>(&self, layer: &'a Value) -> Vec<(&'a str, &Value)> {
        let fields = layer.as_object().into_iter().flatten();
        let left = fields.filter_map(|(name, value)| {
            let field = field(name)?;
            let zero = |value: &Value| field.is_zero(value);
            let value = field.canonical(name, value).ok().filter(zero)?;
            let below = self.fields.get(field.name).filter(|below| **below != value)?;
            Some((name.as_str(), below))
        });
        left.collect()
    }

    /// Returns all fields that are set, defaults included.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// Returns `interceptionMode`: the capture of inbound connections in a pod that does not
    /// choose.
    pub fn interception_mode(&self) -> &str {
        self.fields.get("interceptionMode").and_then(Value::as_str).unwrap_or("REDIRECT")
    }

    /// Returns `holdApplicationUntilProxyStarts`.
    pub fn hold_application_until_proxy_starts(&self) -> bool {
        self.fields.get("holdApplicationUntilProxyStarts") == Some(&Value::Bool(true))
    }

    /// Returns `statusPort`, the port on which the agent answers probes; 0 for none.
    pub fn status_port(&self) -> u16 {
        let port = self.fields.get("statusPort").and_then(Value::as_u64);
        port.and_then(|port| u16::try_from(port).ok()).unwrap_or_default()
    }

    /// Returns `image.imageType`; empty for none.
    pub fn image_type(&self) -> &str {
        let image = self.fields.get("image").and_then(|image| image.get("imageType"));
        image.and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns `tracing.tlsSettings.caCertificates`; `None` if tracing has no TLS settings.
    pub fn tracing_ca_certificates(&self) -> Option<&str> {
        let settings = self.fields.get("tracing")?.get("tlsSettings")?;
        Some(settings.get("caCertificates").and_then(Value::as_str).unwrap_or_default())
    }

    /// Returns the names of all fields that there are.
    pub fn field_names() -> impl Iterator<Item = &'static str> {
        FIELDS.iter().map(|field| field.name)
    }

    /// Returns one entry of `proxyMetadata`.
    pub fn metadata(&self, name: &str) -> Option<&str> {
        self.fields.get("proxyMetadata")?.get(name)?.as_str()
    }

    /// Returns all entries of `proxyMetadata`, sorted by name.
    pub fn all_metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.fields.get("proxyMetadata").and_then(Value::as_object);
        let entries = entries.into_iter().flatten();
        entries.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
    }

    /// Returns the JSON that the proxy reads from `PROXY_CONFIG`: every field that differs from
    /// Istio's default, in the order of the protobuf message, without white space.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{");
        let set = FIELDS.iter().filter_map(|field| Some((field, self.fields.get(field.name)?)));
        for (field, value) in set {
            let left_out = field.initial().as_ref() == Some(value) || field.is_zero(value);
            if left_out {
                continue;
            }
            if json.len() > 1 {
                json.push(',');
            }
            json.push_str(&Value::from(field.name).to_string());
            json.push(':');
            json.push_str(&value.to_string());
        }
        json.push('}');
        json
    }
}

/// Meaning of a zero value in a layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Zero {
    Counts,
    Omitted,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn layered(layers: &[Value]) -> ProxyConfig {
        let mut config = ProxyConfig::default();
        for layer in layers {
            config.overlay(layer).unwrap();
        }
        config
    }

    #[test]
    fn default_values_are_omitted() {
        assert_eq!(ProxyConfig::default().to_json(), "{}");
        let config = layered(&[json!({
            "discoveryAddress": "istiod.istio-system.svc:15012", "proxyMetadata": {},
            "drainDuration": "7s", "configPath": "/foo/bar", "statusPort": 15020,
        })]);
        assert_eq!(config.to_json(), r#"{"configPath":"/foo/bar","drainDuration":"7s"}"#);
    }

    #[test]
    fn layers_replace_fields_and_merge_metadata() {
        let config = layered(&[
            json!({"proxyMetadata": {"A": "1", "B": 2}, "concurrency": 4}),
            json!({"proxyMetadata": {"B": "3"}, "concurrency": 0, "interceptionMode": "TPROXY"}),
        ]);
        assert_eq!(
            config.to_json(),
            r#"{"concurrency":0,"interceptionMode":"TPROXY","proxyMetadata":{"A":"1","B":"3"}}"#
        );
    }

    #[test]
    fn zero_keeps_the_lower_layer_unless_applied() {
        let below = json!({
            "interceptionMode": "TPROXY", "meshId": "m", "drainDuration": "7s",
            "extraStatTags": ["a"],
        });
        let zero = json!({
            "interceptionMode": 0, "meshId": "", "statusPort": 0, "controlPlaneAuthPolicy": "NONE",
            "extraStatTags": [],
        });
        let overlaid = layered(&[below.clone(), zero.clone()]);
        assert_eq!(overlaid, layered(std::slice::from_ref(&below)));
        let mut applied = layered(&[below]);
        applied.apply(&zero).unwrap();
        assert_eq!((applied.interception_mode(), applied.status_port()), ("REDIRECT", 0));
        assert_eq!(applied.to_json(), r#"{"drainDuration":"7s"}"#);
    }

    #[test]
    fn all_protobuf_json_forms_are_equal() {
        let config = layered(&[json!({
            "status_port": "15021", "concurrency": 2.0, "drainDuration": "45.0s",
            "terminationDrainDuration": "1.5s", "image": {"image_type": "debug"},
        })]);
        assert_eq!(
            config.to_json(),
            r#"{"concurrency":2,"statusPort":15021,"terminationDrainDuration":"1.500s","image":{"imageType":"debug"}}"#
        );
        let config = layered(&[json!({
            "statusPort": " 15021\n", "tracing": {"sampling": " 1e1 ", "maxPathTagLength": 4_294_967_295_u32},
        })]);
        assert_eq!(
            config.to_json(),
            r#"{"tracing":{"maxPathTagLength":4294967295,"sampling":10},"statusPort":15021}"#
        );
    }

    #[test]
    fn values_invalid_in_protobuf_are_rejected() {
        for wrong in [
            json!({"concurrency": 2.5}),
            json!({"concurrency": "+2"}),
            json!({"concurrency": "02"}),
            json!({"concurrency": "2.0"}),
            json!({"concurrency": "null"}),
            json!({"statusPort": 3_000_000_000_u64}),
            json!({"fileFlushMinSizeKb": -1}),
            json!({"gatewayTopology": {"numTrustedProxies": "-1"}}),
            json!({"readinessProbe": {"tcpSocket": {"port": -1}}}),
            json!({"tracing": {"maxPathTagLength": 4_294_967_296_u64}}),
            json!({"tracing": {"sampling": "+1"}}),
            json!({"tracing": {"sampling": ".5"}}),
            json!({"tracing": {"sampling": "NaN"}}),
            json!({"interceptionMode": "1"}),
            json!({"interceptionMode": 3}),
            json!({"interceptionMode": "tproxy"}),
            json!({"connectionSettings": {"httpIdleTimeout": "-1s"}}),
            json!({"terminationDrainDuration": "-1s"}),
            json!({"drainDuration": 45}),
            json!({"holdApplicationUntilProxyStarts": "true"}),
            json!({"meshId": 1}),
        ] {
            assert!(ProxyConfig::default().overlay(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn empty_messages_and_null_items_are_kept_as_in_istio() {
        let config = layered(&[json!({
            "tracing": {"tlsSettings": null, "sampling": 0, "customTags": {"a": null}},
            "gatewayTopology": {"numTrustedProxies": 0},
            "connectionSettings": {},
            "proxyMetadata": {"A": null},
            "caCertificatesPem": [null],
            "readinessProbe": {"httpGet": {"httpHeaders": [null]}},
            "image": null,
        })]);
        assert_eq!(
            config.to_json(),
            r#"{"tracing":{"customTags":{"a":{}}},"proxyMetadata":{"A":""},"gatewayTopology":{},"readinessProbe":{"httpGet":{"httpHeaders":[{}]}},"caCertificatesPem":[""],"connectionSettings":{}}"#
        );
    }

    #[test]
    fn messages_are_in_canonical_form() {
        let config = layered(&[json!({
            "tracing": {
                "zipkin": {"address": "zipkin:9411"},
                "sampling": "10.0",
                "max_path_tag_length": 256,
                "tls_settings": {"mode": 1, "caCertificates": "", "subjectAltNames": []},
                "custom_tags": {"a": {"literal": {"value": "b"}}, "c": null},
                "of_a_later_istio": true,
            },
            "gatewayTopology": {
                "numTrustedProxies": 0, "forwardClientCertDetails": "UNDEFINED", "proxyProtocol": {},
            },
            "privateKeyProvider": {"cryptomb": {"poll_delay": "10ms", "fallback": false}},
            "envoyMetricsService": {"tcpKeepalive": {"time": "1m30s", "probes": 3}},
            "runtimeValues": {"a": 1},
        })]);
        let written: Value = serde_json::from_str(&config.to_json()).unwrap();
        assert_eq!(
            written,
            json!({
                "tracing": {
                    "zipkin": {"address": "zipkin:9411"},
                    "sampling": 10,
                    "maxPathTagLength": 256,
                    "tlsSettings": {"mode": "SIMPLE"},
                    "customTags": {"a": {"literal": {"value": "b"}}, "c": {}},
                },
                "gatewayTopology": {"proxyProtocol": {}},
                "privateKeyProvider": {"cryptomb": {"pollDelay": "0.010s", "fallback": false}},
                "envoyMetricsService": {"tcpKeepalive": {"time": "90s", "probes": 3}},
                "runtimeValues": {"a": "1"},
            })
        );
    }

    #[test]
    fn invalid_value_in_a_message_is_named_with_its_path() {
        for (layer, error) in [
            (
                json!({"tracing": {"sampling": "high"}}),
                r#"tracing.sampling: "high" is not a number"#,
            ),
            (
                json!({"tracing": {"zipkin": {}, "datadog": {}}}),
                "tracing: only one of datadog and zipkin can be given",
            ),
            (
                json!({"tracing": {"tlsSettings": {"mode": "TLS"}}}),
                r#"tracing.tlsSettings.mode: "TLS" is not DISABLE, SIMPLE, MUTUAL or ISTIO_MUTUAL"#,
            ),
            (json!({"caCertificatesPem": ["a", 1]}), "caCertificatesPem[1]: 1 is not a string"),
            (
                json!({"gatewayTopology": {"numTrustedProxies": 1.5}}),
                "gatewayTopology.numTrustedProxies: 1.5 is not a whole number from 0 to 4294967295",
            ),
            (
                json!({"serviceCluster": "a", "tracingServiceName": "CANONICAL_NAME_ONLY"}),
                "only one of serviceCluster and tracingServiceName can be given",
            ),
        ] {
            assert_eq!(ProxyConfig::default().overlay(&layer).unwrap_err(), error);
        }
    }

    #[test]
    fn tracing_service_name_replaces_service_cluster() {
        let name = json!({"tracingServiceName": "APP_LABEL_AND_NAMESPACE"});
        let config = layered(&[json!({"serviceCluster": "a"}), name.clone()]);
        assert_eq!(config.to_json(), name.to_string());
        let config = layered(&[name, json!({"serviceCluster": "a"})]);
        assert_eq!(config.to_json(), r#"{"serviceCluster":"a"}"#);
    }

    #[test]
    fn fields_unknown_to_istio_have_no_effect() {
        let layer = json!({
            "concurency": 2,
            "meshId": "m",
            "tracing": {"zipkn": 1, "custom_tags": {"a": {"literals": {}}}},
        });
        let applied = layered(std::slice::from_ref(&layer));
        assert_eq!(applied.to_json(), r#"{"tracing":{"customTags":{"a":{}}},"meshId":"m"}"#);
        let unknown = ProxyConfig::unknown_keys(&layer);
        let unknown: Vec<_> = unknown.iter().map(|key| (key.path.as_str(), key.near)).collect();
        assert_eq!(
            unknown,
            [
                ("concurency", Some("concurrency")),
                ("tracing.custom_tags.a.literals", Some("literal")),
                ("tracing.zipkn", Some("zipkin")),
            ]
        );
    }

    #[test]
    fn invalid_layer_changes_nothing() {
        let mut config = ProxyConfig::default();
        let error = config.overlay(&json!({"concurrency": 2, "interceptionMode": "tproxy"}));
        assert_eq!(
            error.unwrap_err(),
            r#"interceptionMode: "tproxy" is not REDIRECT, TPROXY or NONE"#
        );
        assert_eq!(config, ProxyConfig::default());
    }
}
