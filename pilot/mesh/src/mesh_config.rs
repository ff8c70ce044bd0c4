//! `MeshConfig`: the mesh-wide settings.

use std::time::Duration;

use documents::kubernetes_object;
use documents::notice::{self, Oddity};
use documents::unknown_keys::{Shape, unknown_keys};
use go_types::{MESH_CONFIG, lower_camel_case};
use serde_json::{Map, Value};

use crate::proto_json::whole;
use crate::proxy_config::ProxyConfig;

/// The part of Istio's `MeshConfig` that shapes pods. An absent key has Istio's default. Unknown
/// keys are accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct MeshConfig {
    /// Port on which the proxy accepts outbound connections.
    pub proxy_listen_port: u16,
    /// Port on which the proxy accepts inbound connections.
    pub proxy_inbound_listen_port: u16,
    /// The trust domain of the mesh; may be empty.
    pub trust_domain: String,
    /// True if the proxy serves the application's metrics beside its own.
    pub enable_prometheus_merge: bool,
    /// Destination address of inbound connections.
    pub inbound_traffic_policy: InboundTrafficPolicy,
    /// The namespace whose configuration applies to the whole mesh.
    pub root_namespace: String,
    /// Istio's defaults overlaid with `defaultConfig`; zero values in it count.
    pub default_config: ProxyConfig,
    /// The lowest layer of an admitted pod: as `default_config`, but a zero value leaves the
    /// default.
    pub lowest_layer: ProxyConfig,
    /// `extensionProviders`, unparsed.
    pub extension_providers: Vec<Value>,
    /// The original document, for templates.
    pub document: Map<String, Value>,
    /// The ignored part of the document: repeated keys or further documents.
    repeated: Option<Oddity>,
}

impl MeshConfig {
    /// Parses the `mesh` document of the ConfigMap `istio`, YAML or JSON.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (document, repeated) = notice::read(text).map_err(|error| error.to_string())?;
        kubernetes_object::refuse(&document, "mesh")?;
        let document: Map<_, _> = match document {
            // Protobuf also accepts its original field names (`root_namespace`).
            Value::Object(document) => {
                document.into_iter().map(|(key, value)| (lower_camel_case(&key), value)).collect()
            }
            Value::Null => Map::new(),
            // The text may be that of another file, such as a key.
            _ => return Err("expected a mapping with MeshConfig's fields".to_owned()),
        };
        let (mut default_config, mut lowest_layer) = Default::default();
        if let Some(layer) = document.get("defaultConfig").filter(|layer| !layer.is_null()) {
            let put = ProxyConfig::apply(&mut default_config, layer)
                .and_then(|()| ProxyConfig::overlay(&mut lowest_layer, layer));
            // A problem of the whole mapping names no field.
            put.map_err(|problem| {
                let separator = if problem.contains(": ") { "." } else { ": " };
                format!("defaultConfig{separator}{problem}")
            })?;
        }
        Ok(Self {
            proxy_listen_port: port(&document, "proxyListenPort", 15001)?,
            proxy_inbound_listen_port: port(&document, "proxyInboundListenPort", 15006)?,
            trust_domain: text_of(&document, "trustDomain", "cluster.local")?,
            enable_prometheus_merge: switch(&document, "enablePrometheusMerge", true)?,
            inbound_traffic_policy: InboundTrafficPolicy::parse(&document)?,
            root_namespace: text_of(&document, "rootNamespace", "istio-system")?,
            default_config,
            lowest_layer,
            extension_providers: match document.get("extensionProviders") {
                None | Some(Value::Null) => Vec::new(),
                Some(Value::Array(providers)) => providers.clone(),
                Some(other) => return Err(wrong("extensionProviders", other, "a list")),
            },
            document,
            repeated,
        })
    }

    /// Returns the value at a path; null if it is unset.
    ///
    /// # Errors
    ///
    /// Fails if a value on the way is no mapping.
    pub fn value(&self, path: &[&str]) -> Result<&Value, String> {
        let mut members = &self.document;
        let mut found = &Value::Null;
        for (place, key) in path.iter().enumerate() {
            match found {
                _ if place == 0 => {}
                Value::Null => return Ok(found),
                Value::Object(inner) => members = inner,
                other => return Err(format!("{other} is not a mapping with {key}")),
            }
            let value = members.iter().find(|(name, _)| lower_camel_case(name) == *key);
            found = value.map_or(&Value::Null, |(_, value)| value);
        }
        Ok(found)
    }

    /// Returns a duration; `None` if it is unset or invalid.
    pub fn duration(&self, key: &str) -> Option<Duration> {
        go_duration::non_negative(self.document.get(key)?.as_str()?).ok()
    }

    /// Returns the suspicious parts of the document: keys that Istio does not know.
    pub fn oddities(&self) -> Vec<Oddity> {
        let unknown =
            unknown_keys(&Value::Object(self.document.clone()), Shape::Message(MESH_CONFIG));
        unknown.into_iter().map(notice::unknown).chain(self.repeated.clone()).collect()
    }
}

/// Destination address of inbound connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InboundTrafficPolicy {
    /// 127.0.0.1.
    Localhost,
    /// The address that the client used.
    Passthrough,
}

impl InboundTrafficPolicy {
    fn parse(document: &Map<String, Value>) -> Result<Self, String> {
        const KEY: &str = "inboundTrafficPolicy.mode";
        let policy = match document.get("inboundTrafficPolicy") {
            None | Some(Value::Null | Value::Object(_)) => document.get("inboundTrafficPolicy"),
            Some(other) => return Err(wrong("inboundTrafficPolicy", other, "a mapping with mode")),
        };
        match policy.and_then(|policy| policy.get("mode")) {
            None | Some(Value::Null) => Ok(Self::Passthrough),
            Some(Value::String(mode)) if mode == "PASSTHROUGH" => Ok(Self::Passthrough),
            Some(Value::String(mode)) if mode == "LOCALHOST" => Ok(Self::Localhost),
            Some(Value::Number(mode)) if mode.as_u64() == Some(0) => Ok(Self::Passthrough),
            Some(Value::Number(mode)) if mode.as_u64() == Some(1) => Ok(Self::Localhost),
            Some(other) => Err(wrong(KEY, other, "PASSTHROUGH or LOCALHOST")),
        }
    }
}

fn port(document: &Map<String, Value>, key: &str, default: u16) -> Result<u16, String> {
    match document.get(key) {
        None | Some(Value::Null) => Ok(default),
        // Protobuf's JSON also accepts numbers in quotes.
        Some(value) => whole(value)
            .and_then(|number| u16::try_from(number).ok())
            .map(|number| if number == 0 { default } else { number })
            .ok_or_else(|| wrong(key, value, "a port from 1 to 65535")),
    }
}

fn switch(document: &Map<String, Value>, key: &str, default: bool) -> Result<bool, String> {
    match document.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(on)) => Ok(*on),
        Some(other) => Err(wrong(key, other, "true or false")),
    }
}

fn text_of(document: &Map<String, Value>, key: &str, default: &str) -> Result<String, String> {
    match document.get(key) {
        None | Some(Value::Null) => Ok(default.to_owned()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(wrong(key, other, "a string")),
    }
}

fn wrong(key: &str, value: &Value, allowed: &str) -> String {
    format!("{key}: {value} is not {allowed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_document_means_istios_defaults() {
        let mesh = MeshConfig::parse("").unwrap();
        assert_eq!((mesh.proxy_listen_port, mesh.proxy_inbound_listen_port), (15001, 15006));
        assert_eq!(mesh.trust_domain, "cluster.local");
        assert!(mesh.enable_prometheus_merge);
        assert_eq!(mesh.inbound_traffic_policy, InboundTrafficPolicy::Passthrough);
    }

    #[test]
    fn unknown_keys_get_a_warning() {
        let mesh = MeshConfig::parse(
            "root_namespace: mesh\nenablePrometheusMerg: false\n\
             defaultConfig: {proxyMetadta: {A: b}, status_port: 15021}\n",
        );
        let mesh = mesh.unwrap();
        assert_eq!(
            (mesh.root_namespace.as_str(), mesh.default_config.status_port()),
            ("mesh", 15021)
        );
        let expected = [
            ("defaultConfig.proxyMetadta", "unknown key; did you mean proxyMetadata?"),
            ("enablePrometheusMerg", "unknown key; did you mean enablePrometheusMerge?"),
        ];
        let expected = expected.map(|(path, problem)| (path.to_owned(), problem.to_owned()));
        assert_eq!(mesh.oddities(), expected);
    }

    #[test]
    fn forms_that_go_decodes_are_accepted() {
        let mesh = MeshConfig::parse(
            "proxyListenPort: \"15101\"\ntrustDomain: a\ntrustDomain: b\n---\nrootNamespace: x\n",
        );
        let mesh = mesh.unwrap();
        assert_eq!((mesh.proxy_listen_port, mesh.trust_domain.as_str()), (15101, "b"));
        assert_eq!(mesh.root_namespace, "istio-system");
        let [(place, problem)] = &mesh.oddities()[..] else { panic!("one notice") };
        assert_eq!(place, "line 3");
        assert!(problem.starts_with("duplicate mapping key: trustDomain; "), "{problem}");
    }

    #[test]
    fn text_without_a_mapping_is_not_repeated() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIGHAgEA\n-----END PRIVATE KEY-----\n";
        for text in [key, "[MIGHAgEA]", "MIGHAgEA"] {
            let error = MeshConfig::parse(text).unwrap_err();
            assert_eq!(error, "expected a mapping with MeshConfig's fields");
        }
    }

    #[test]
    fn mesh_config_errors_name_key_and_value() {
        for (text, expected) in [
            ("proxyListenPort: 70000", "proxyListenPort: 70000 is not a port from 1 to 65535"),
            (
                "inboundTrafficPolicy: {mode: NEAR}",
                "inboundTrafficPolicy.mode: \"NEAR\" is not PASSTHROUGH or LOCALHOST",
            ),
            ("defaultConfig: [1]", "defaultConfig: expected a mapping with ProxyConfig's fields"),
            (
                "defaultConfig: {concurrency: many}",
                "defaultConfig.concurrency: \"many\" is not a whole number",
            ),
        ] {
            assert_eq!(MeshConfig::parse(text).unwrap_err(), expected);
        }
    }
}
