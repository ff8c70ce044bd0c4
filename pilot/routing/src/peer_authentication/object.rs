//! `PeerAuthentication` of Kubernetes, from the API server or from files.

use std::collections::BTreeMap;

use pilot_registry::event::ObjectKey;
use pilot_registry::labels::Labels;
use pilot_registry::manifest::Metadata;
use serde_json::{Map, Value};
use thiserror::Error;

use super::{MtlsMode, PeerAuthentication};

/// Kind of the objects.
pub const KIND: &str = "PeerAuthentication";
/// API versions of the objects, the stored one first.
pub const API_VERSIONS: [&str; 2] = ["security.istio.io/v1", "security.istio.io/v1beta1"];
/// Name of the objects in paths of the API and in roles.
pub const PLURAL: &str = "peerauthentications";

/// Object that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("PeerAuthentication {key}: {field}: {problem}")]
pub struct InvalidPeerAuthentication {
    /// Name of the object.
    pub key: ObjectKey,
    /// Path of the field, such as `spec.mtls.mode`.
    pub field: String,
    /// The problem, with the accepted values.
    pub problem: String,
}

impl PeerAuthentication {
    /// Parses an object. Fields that it does not know are errors: a policy with a misspelt mode
    /// must not take effect without it. The namespace of an object without one is `default`.
    pub fn from_object(object: &Value) -> Result<Self, InvalidPeerAuthentication> {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let metadata: Result<Option<Metadata>, _> =
            serde_json::from_value(object["metadata"].clone());
        let created = metadata.as_ref().ok().and_then(Option::as_ref).map(Metadata::created);
        let named = |field: &str| match object["metadata"][field].as_str() {
            Some(name) if !name.is_empty() => Some(name),
            _ => None,
        };
        let name = named("name").unwrap_or_default();
        let key = ObjectKey::new(named("namespace").unwrap_or("default"), name);
        let invalid = |(field, problem): Problem| InvalidPeerAuthentication {
            key: key.clone(),
            field,
            problem,
        };
        if text("kind") != KIND {
            return Err(invalid(problem("kind", format!("expected {KIND}"))));
        }
        if !API_VERSIONS.contains(&text("apiVersion")) {
            let expected = format!("expected {}", API_VERSIONS.join(" or "));
            return Err(invalid(problem("apiVersion", expected)));
        }
        if let Err(error) = metadata {
            return Err(invalid(problem("metadata", error.to_string())));
        }
        if name.is_empty() {
            return Err(invalid(problem("metadata.name", "expected a name")));
        }
        let spec = Spec::parse(&object["spec"]).map_err(invalid)?;
        Ok(Self {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            created: created.unwrap_or_default(),
            selector: spec.selector,
            mode: spec.mode,
            ports: spec.ports,
        })
    }
}

/// Field and problem.
type Problem = (String, String);

fn problem(field: impl Into<String>, problem: impl Into<String>) -> Problem {
    (field.into(), problem.into())
}

struct Spec {
    selector: Labels,
    mode: Option<MtlsMode>,
    ports: BTreeMap<u16, Option<MtlsMode>>,
}

impl Spec {
    fn parse(spec: &Value) -> Result<Self, Problem> {
        let fields = message("spec", spec, &["selector", "mtls", "portLevelMtls"])?;
        let selector = message("spec.selector", field(fields, "selector"), &["matchLabels"])?;
        Ok(Self {
            selector: labels("spec.selector.matchLabels", field(selector, "matchLabels"))?,
            mode: mode("spec.mtls", field(fields, "mtls"))?,
            ports: ports("spec.portLevelMtls", field(fields, "portLevelMtls"))?,
        })
    }
}

fn labels(path: &str, value: &Value) -> Result<Labels, Problem> {
    let labels = object(path, value)?.into_iter().flatten().map(|(key, value)| {
        let path = format!("{path}.{key}");
        let value = value.as_str().ok_or_else(|| problem(&path, "expected a text"))?;
        // Istio takes no patterns here. As plain text they would select no workload.
        if key.is_empty() || key.contains('*') || value.contains('*') {
            return Err(problem(&path, "expected a label without '*'"));
        }
        Ok((key.as_str(), value))
    });
    labels.collect()
}

fn ports(path: &str, value: &Value) -> Result<BTreeMap<u16, Option<MtlsMode>>, Problem> {
    let ports = object(path, value)?.into_iter().flatten().map(|(key, value)| {
        let path = format!("{path}.{key}");
        let port: u16 = key.parse().unwrap_or_default();
        if port == 0 {
            return Err(problem(&path, "expected a port (1–65535)"));
        }
        Ok((port, mode(&path, value)?))
    });
    ports.collect()
}

/// Parses a message `{mode: MODE}`. `UNSET` and an absent mode inherit.
fn mode(path: &str, value: &Value) -> Result<Option<MtlsMode>, Problem> {
    let mode = field(message(path, value, &["mode"])?, "mode");
    match mode.as_str() {
        None if mode.is_null() => Ok(None),
        Some("UNSET") => Ok(None),
        Some("DISABLE") => Ok(Some(MtlsMode::Disable)),
        Some("PERMISSIVE") => Ok(Some(MtlsMode::Permissive)),
        Some("STRICT") => Ok(Some(MtlsMode::Strict)),
        _ => {
            let expected = "expected UNSET, DISABLE, PERMISSIVE or STRICT";
            Err(problem(format!("{path}.mode"), format!("invalid mode {mode}: {expected}")))
        }
    }
}

/// Value of a field; null if it is absent.
fn field<'a>(fields: Option<&'a Map<String, Value>>, name: &str) -> &'a Value {
    fields.and_then(|fields| fields.get(name)).unwrap_or(&Value::Null)
}

/// Fields of an object with these names alone; `None` if it is absent.
fn message<'a>(
    path: &str,
    value: &'a Value,
    known: &[&str],
) -> Result<Option<&'a Map<String, Value>>, Problem> {
    let fields = object(path, value)?;
    let unknown = fields.into_iter().flatten().find(|(name, _)| !known.contains(&name.as_str()));
    match unknown {
        Some((name, _)) => {
            let expected = format!("unknown field: expected {}", known.join(", "));
            Err(problem(format!("{path}.{name}"), expected))
        }
        None => Ok(fields),
    }
}

/// Treats null as absent.
fn object<'a>(path: &str, value: &'a Value) -> Result<Option<&'a Map<String, Value>>, Problem> {
    match value {
        Value::Null => Ok(None),
        Value::Object(fields) => Ok(Some(fields)),
        _ => Err(problem(path, "expected an object")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(spec: &Value) -> Value {
        json!({
            "apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication",
            "metadata": {
                "name": "web", "namespace": "shop", "creationTimestamp": "1970-01-01T00:01:00Z",
                "managedFields": [{}],
            },
            "spec": spec, "status": {"conditions": []},
        })
    }

    fn error(object: &Value) -> String {
        PeerAuthentication::from_object(object).unwrap_err().to_string()
    }

    #[test]
    fn all_fields_are_parsed() {
        let object = policy(&json!({
            "selector": {"matchLabels": {"app": "web"}}, "mtls": {"mode": "STRICT"},
            "portLevelMtls": {"8080": {"mode": "DISABLE"}, "90": {"mode": "UNSET"}, "91": {}},
        }));
        let expected = PeerAuthentication {
            namespace: "shop".into(),
            name: "web".into(),
            created: 60,
            selector: [("app", "web")].into_iter().collect(),
            mode: Some(MtlsMode::Strict),
            ports: [(8080, Some(MtlsMode::Disable)), (90, None), (91, None)].into(),
        };
        assert_eq!(PeerAuthentication::from_object(&object).as_ref(), Ok(&expected));
        let mut beta = object;
        beta["apiVersion"] = "security.istio.io/v1beta1".into();
        assert_eq!(PeerAuthentication::from_object(&beta), Ok(expected));
    }

    #[test]
    fn absent_and_null_fields_inherit() {
        for spec in [json!(null), json!({}), json!({"mtls": null, "selector": {}})] {
            let parsed = PeerAuthentication::from_object(&policy(&spec)).unwrap();
            assert_eq!((parsed.mode, parsed.ports.len()), (None, 0), "{spec}");
            assert!(parsed.selector.is_empty(), "{spec}");
        }
        let object = json!({
            "apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication",
            "metadata": {"name": "default"},
        });
        let parsed = PeerAuthentication::from_object(&object).unwrap();
        assert_eq!((&*parsed.namespace, parsed.created), ("default", 0));
    }

    #[test]
    fn error_names_object_and_field() {
        for (spec, field) in [
            (json!({"mtls": {"mode": "Strict"}}), "spec.mtls.mode: invalid mode \"Strict\""),
            (json!({"mtls": {"mode": 3}}), "spec.mtls.mode: invalid mode 3"),
            (json!({"mtsl": {}}), "spec.mtsl: unknown field"),
            (json!({"mtls": {"mod": "STRICT"}}), "spec.mtls.mod: unknown field"),
            (json!({"mtls": "STRICT"}), "spec.mtls: expected an object"),
            (json!({"portLevelMtls": {"http": {}}}), "spec.portLevelMtls.http: expected a port"),
            (json!({"portLevelMtls": {"0": {}}}), "spec.portLevelMtls.0: expected a port"),
            (json!({"portLevelMtls": {"80": {"mode": ""}}}), "spec.portLevelMtls.80.mode: inv"),
            (json!({"selector": {"app": "web"}}), "spec.selector.app: unknown field"),
            (json!({"selector": {"matchLabels": {"a": 1}}}), "spec.selector.matchLabels.a: exp"),
            (json!({"selector": {"matchLabels": {"a": "*"}}}), "spec.selector.matchLabels.a: exp"),
        ] {
            let error = error(&policy(&spec));
            let expected = format!("PeerAuthentication shop/web: {field}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn other_kinds_and_nameless_objects_are_rejected() {
        for (field, value, expected) in [
            ("kind", json!("Service"), "shop/web: kind: expected PeerAuthentication"),
            ("apiVersion", json!("security.istio.io/v2"), "shop/web: apiVersion: expected sec"),
            ("metadata", json!({"namespace": "shop"}), "shop/: metadata.name: expected a name"),
            ("metadata", json!({"name": "a", "creationTimestamp": 1}), "default/a: metadata: "),
        ] {
            let mut object = policy(&json!({}));
            object[field] = value;
            let error = error(&object);
            assert!(error.starts_with(&format!("PeerAuthentication {expected}")), "{error}");
        }
    }
}
