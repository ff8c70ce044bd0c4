//! `ProxyConfig`: what one proxy is started with, and the layers it comes from.

use serde_json::{Map, Value, json};

use super::near;
use super::proxy_field::{FIELDS, Initial, Kind, field};
use super::unknown_keys::UnknownKey;

/// Istio's `ProxyConfig` as canonical protobuf JSON, field by field.
///
/// Starts as Istio's defaults; [`overlay`](Self::overlay) puts a layer on top.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyConfig {
    fields: Map<String, Value>,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        let fields = FIELDS.iter().filter_map(|field| {
            let value = match field.initial {
                Initial::Unset => return None,
                Initial::Text(text) => json!(text),
                Initial::Number(number) => json!(number),
            };
            Some((field.name.to_owned(), value))
        });
        Self { fields: fields.collect() }
    }
}

impl ProxyConfig {
    /// Puts a layer on top: a field that is in the layer replaces, nested messages whole; the
    /// entries of `proxyMetadata` and the members of `proxyHeaders` replace one by one. Fields
    /// that Istio omits when they are zero (`0`, `""`, the first word of an enumeration) leave
    /// what is below.
    ///
    /// An error is the field, the value and what is allowed; nothing of the layer is taken then.
    pub fn overlay(&mut self, layer: &Value) -> Result<(), String> {
        self.put(layer, Zero::Omitted)
    }

    /// As [`overlay`](Self::overlay), but zero counts: Istio reads the mesh's `defaultConfig` so,
    /// and `kube-inject` a pod's annotation.
    pub fn apply(&mut self, layer: &Value) -> Result<(), String> {
        self.put(layer, Zero::Counts)
    }

    fn put(&mut self, layer: &Value, zero: Zero) -> Result<(), String> {
        let Value::Object(layer) = layer else {
            return Err(format!("{layer} is not a mapping"));
        };
        let mut checked = Vec::with_capacity(layer.len());
        for (name, value) in layer {
            // A field of a later Istio is not ours to refuse; as in Istio it has no effect.
            let Some(field) = field(name).filter(|_| !value.is_null()) else {
                continue;
            };
            checked.push((field.name, field.kind, field.kind.canonical(name, value)?));
        }
        for (name, kind, value) in checked {
            match (kind, self.fields.get_mut(name)) {
                (Kind::Metadata | Kind::Headers, Some(Value::Object(below))) => {
                    if let Value::Object(members) = value {
                        below.extend(members);
                    }
                }
                _ if zero == Zero::Omitted && kind.is_zero(&value) => {}
                _ => {
                    self.fields.insert(name.to_owned(), value);
                }
            }
        }
        Ok(())
    }

    /// The canonical form of a value of the field `name`; the error calls it as the user did.
    pub(super) fn value_of(name: &str, called: &str, value: &Value) -> Result<Value, String> {
        field(name).map_or(Kind::Any, |field| field.kind).canonical(called, value)
    }

    /// The fields of a layer that Istio does not know.
    pub(super) fn unknown_keys(layer: &Value) -> Vec<UnknownKey> {
        let names = || FIELDS.iter().map(|field| field.name).collect::<Vec<_>>();
        let unknown = layer.as_object().into_iter().flat_map(Map::keys);
        let unknown = unknown.filter(|name| field(name).is_none());
        let key =
            |name: &String| UnknownKey { path: name.clone(), near: near::among(name, &names()) };
        unknown.map(key).collect()
    }

    /// The fields of a layer that are zero and so leave a value that is not in force.
    pub(super) fn left_by<'a>(&self, layer: &'a Value) -> Vec<(&'a str, &Value)> {
        let fields = layer.as_object().into_iter().flatten();
        let left = fields.filter_map(|(name, value)| {
            let field = field(name)?;
            let zero = |value: &Value| field.kind.is_zero(value);
            let value = field.kind.canonical(name, value).ok().filter(zero)?;
            let below = self.fields.get(field.name).filter(|below| **below != value)?;
            Some((name.as_str(), below))
        });
        left.collect()
    }

    /// All fields that are set, defaults included.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// `interceptionMode`: how inbound connections are captured where the pod does not say.
    pub fn interception_mode(&self) -> &str {
        self.fields.get("interceptionMode").and_then(Value::as_str).unwrap_or("REDIRECT")
    }

    /// `holdApplicationUntilProxyStarts`.
    pub fn hold_application_until_proxy_starts(&self) -> bool {
        self.fields.get("holdApplicationUntilProxyStarts") == Some(&Value::Bool(true))
    }

    /// `statusPort`: where the agent answers probes; 0 for nowhere.
    pub fn status_port(&self) -> u16 {
        let port = self.fields.get("statusPort").and_then(Value::as_u64);
        port.and_then(|port| u16::try_from(port).ok()).unwrap_or_default()
    }

    /// `image.imageType`; empty for none.
    pub fn image_type(&self) -> &str {
        let image = self.fields.get("image").and_then(|image| image.get("imageType"));
        image.and_then(Value::as_str).unwrap_or_default()
    }

    /// `tracing.tlsSettings.caCertificates`, where tracing has TLS settings.
    pub fn tracing_ca_certificates(&self) -> Option<&str> {
        let settings = self.fields.get("tracing")?.get("tlsSettings")?;
        Some(settings.get("caCertificates").and_then(Value::as_str).unwrap_or_default())
    }

    /// One entry of `proxyMetadata`.
    pub fn metadata(&self, name: &str) -> Option<&str> {
        self.fields.get("proxyMetadata")?.get(name)?.as_str()
    }

    /// All of `proxyMetadata`, sorted by name.
    pub fn all_metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.fields.get("proxyMetadata").and_then(Value::as_object);
        let entries = entries.into_iter().flatten();
        entries.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
    }

    /// The JSON that the proxy reads from `PROXY_CONFIG`: every field that differs from Istio's
    /// default, in the order of the protobuf message, without white space.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{");
        let set = FIELDS.iter().filter_map(|field| Some((field, self.fields.get(field.name)?)));
        for (field, value) in set {
            let left_out = field.initial.is(value) || field.kind.is_zero(value);
            if left_out || value.as_object().is_some_and(Map::is_empty) {
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

/// What a layer means by a field that is zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Zero {
    Counts,
    Omitted,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layered(layers: &[Value]) -> ProxyConfig {
        let mut config = ProxyConfig::default();
        for layer in layers {
            config.overlay(layer).unwrap();
        }
        config
    }

    #[test]
    fn what_equals_a_default_is_left_out() {
        assert_eq!(ProxyConfig::default().to_json(), "{}");
        let config = layered(&[json!({
            "discoveryAddress": "istiod.istio-system.svc:15012", "proxyMetadata": {},
            "drainDuration": "7s", "configPath": "/foo/bar", "statusPort": 15020,
        })]);
        assert_eq!(config.to_json(), r#"{"configPath":"/foo/bar","drainDuration":"7s"}"#);
    }

    #[test]
    fn layers_replace_fields_and_unite_metadata() {
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
    fn zero_leaves_what_is_below_unless_it_is_applied() {
        let below = json!({"interceptionMode": "TPROXY", "meshId": "m", "drainDuration": "7s"});
        let zero = json!({
            "interceptionMode": 0, "meshId": "", "statusPort": 0, "controlPlaneAuthPolicy": "NONE",
        });
        let overlaid = layered(&[below.clone(), zero.clone()]);
        assert_eq!(overlaid, layered(std::slice::from_ref(&below)));
        let mut applied = layered(&[below]);
        applied.apply(&zero).unwrap();
        assert_eq!((applied.interception_mode(), applied.status_port()), ("REDIRECT", 0));
        assert_eq!(applied.to_json(), r#"{"drainDuration":"7s"}"#);
    }

    #[test]
    fn all_forms_of_protobufs_json_mean_the_same() {
        let config = layered(&[json!({
            "status_port": "15021", "concurrency": 2.0, "drainDuration": "45.0s",
            "terminationDrainDuration": "1.5s", "image": {"image_type": "debug"},
        })]);
        assert_eq!(
            config.to_json(),
            r#"{"concurrency":2,"statusPort":15021,"terminationDrainDuration":"1.500s","image":{"imageType":"debug"}}"#
        );
        for wrong in [json!({"concurrency": 2.5}), json!({"statusPort": 3_000_000_000_u64})] {
            assert!(ProxyConfig::default().overlay(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_istio_does_not_know_has_no_effect() {
        let layer = json!({"concurency": 2, "meshId": "m"});
        let applied = layered(std::slice::from_ref(&layer));
        assert_eq!(applied.to_json(), r#"{"meshId":"m"}"#);
        assert_eq!(ProxyConfig::unknown_keys(&layer)[0].path, "concurency");
    }

    #[test]
    fn a_wrong_layer_changes_nothing() {
        let mut config = ProxyConfig::default();
        let error = config.overlay(&json!({"concurrency": 2, "interceptionMode": "tproxy"}));
        assert_eq!(
            error.unwrap_err(),
            r#"interceptionMode: "tproxy" is not REDIRECT, TPROXY or NONE"#
        );
        assert_eq!(config, ProxyConfig::default());
    }
}
