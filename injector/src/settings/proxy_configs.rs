//! `ProxyConfig` resources of a cluster, and the layers of a pod's proxy configuration.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mesh::mesh_config::MeshConfig;
use mesh::proxy_config::ProxyConfig;
use reason::{Reason, words};
use serde_json::{Map, Value};

use super::annotations::key;

/// One `ProxyConfig` resource of `networking.istio.io`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyConfigResource {
    namespace: String,
    name: String,
    created: Timestamp,
    selector: Selector,
    layer: Value,
}

/// Namespace, name and creation time of a resource.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Origin {
    /// The resource's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The creation time. Among resources of equal rank the oldest applies.
    pub created: Timestamp,
}

impl ProxyConfigResource {
    /// Parses the `spec` of a resource. Fields other than `selector`, `concurrency`,
    /// `environmentVariables` and `image` have no effect.
    ///
    /// An error names the field, its value and the allowed values.
    pub fn parse(origin: Origin, spec: &Value) -> Result<Self, String> {
        let none = Map::new();
        let spec = match spec {
            Value::Object(spec) => spec,
            Value::Null => &none,
            other => return Err(format!("spec: {other} is not a mapping")),
        };
        let mut layer = Map::new();
        for (theirs, ours) in FIELDS {
            if let Some(value) = spec.get(theirs).filter(|value| !value.is_null()) {
                let called = format!("spec.{theirs}");
                layer.insert(ours.to_owned(), ProxyConfig::value_of(ours, &called, value)?);
            }
        }
        let selector = Selector::parse(spec.get("selector").unwrap_or_default())?;
        let Origin { namespace, name, created } = origin;
        Ok(Self { namespace, name, created, selector, layer: Value::Object(layer) })
    }
}

/// The effective fields of a resource, and their names in the proxy configuration.
const FIELDS: [(&str, &str); 3] =
    [("concurrency", "concurrency"), ("environmentVariables", "proxyMetadata"), ("image", "image")];

/// Pods of its namespace to which a resource applies.
#[derive(Clone, Debug, PartialEq)]
enum Selector {
    /// All pods.
    All,
    /// Pods with these labels.
    Labels(BTreeMap<String, String>),
}

impl Selector {
    fn parse(selector: &Value) -> Result<Self, String> {
        const LABELS: &str = "spec.selector.matchLabels";
        let labels = match selector {
            Value::Null => return Ok(Self::All),
            Value::Object(selector) => selector.get("matchLabels").unwrap_or_default(),
            other => return Err(format!("spec.selector: {other} is not a mapping")),
        };
        let labels = match labels {
            Value::Null => &Map::new(),
            Value::Object(labels) => labels,
            other => return Err(format!("{LABELS}: {other} is not a mapping")),
        };
        if labels.is_empty() {
            return Err(format!(
                "{LABELS}: it names no label, so it selects no pod; remove spec.selector to select \
                 all pods of the namespace"
            ));
        }
        let label = |(key, value): (&String, &Value)| match value {
            Value::String(text) => Ok((key.clone(), text.clone())),
            other => Err(format!("{LABELS}.{key}: {other} is not a string")),
        };
        Ok(Self::Labels(labels.iter().map(label).collect::<Result<_, _>>()?))
    }

    fn has(&self, pod: Option<&Map<String, Value>>) -> bool {
        match self {
            Self::All => false,
            Self::Labels(labels) => labels.iter().all(|(key, value)| {
                pod.and_then(|pod| pod.get(key)).and_then(Value::as_str) == Some(value)
            }),
        }
    }
}

/// The `ProxyConfig` resources of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProxyConfigs {
    /// Resources by namespace, oldest first.
    namespaces: BTreeMap<String, Vec<ProxyConfigResource>>,
}

impl FromIterator<ProxyConfigResource> for ProxyConfigs {
    fn from_iter<I: IntoIterator<Item = ProxyConfigResource>>(resources: I) -> Self {
        let mut namespaces: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for resource in resources {
            namespaces.entry(resource.namespace.clone()).or_default().push(resource);
        }
        for resources in namespaces.values_mut() {
            resources.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        }
        Self { namespaces }
    }
}

impl ProxyConfigs {
    /// Returns the layer of a namespace: its oldest resource without a selector.
    fn of_namespace(&self, namespace: &str) -> Option<&Value> {
        self.oldest(namespace, |resource| resource.selector == Selector::All)
    }

    /// Returns the layer of a pod: the oldest resource of its namespace whose selector matches.
    fn of_pod(&self, namespace: &str, labels: Option<&Map<String, Value>>) -> Option<&Value> {
        self.oldest(namespace, |resource| resource.selector.has(labels))
    }

    fn oldest(
        &self,
        namespace: &str,
        counts: impl Fn(&ProxyConfigResource) -> bool,
    ) -> Option<&Value> {
        let resource = self.namespaces.get(namespace)?.iter().find(|resource| counts(resource));
        resource.map(|resource| &resource.layer)
    }
}

/// Layers of a pod's proxy configuration.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// The mesh, whose `defaultConfig` is the lowest layer.
    pub mesh: &'a MeshConfig,
    /// The resources of the cluster; `None` without a cluster.
    pub resources: Option<&'a ProxyConfigs>,
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's labels.
    pub labels: Option<&'a Map<String, Value>>,
    /// The pod's annotation `proxy.istio.io/config`, parsed and validated.
    pub annotation: Option<&'a Value>,
}

impl Layers<'_> {
    /// Returns the configuration of an admitted pod. The layers from lowest to highest:
    /// `defaultConfig`, the resource of the root namespace, the resource of the pod's namespace,
    /// the annotation, the resource that selects the pod.
    pub fn for_admission(&self) -> ProxyConfig {
        let root = self.mesh.root_namespace.as_str();
        let of_namespace = |namespace| self.resources?.of_namespace(namespace);
        let layers = [
            of_namespace(root),
            of_namespace(self.namespace).filter(|_| self.namespace != root),
            self.annotation,
            self.resources.and_then(|resources| resources.of_pod(self.namespace, self.labels)),
        ];
        let mut config = self.mesh.lowest_layer.clone();
        for layer in layers.into_iter().flatten() {
            // Resources and annotation were validated when they were parsed.
            let _ = config.overlay(layer);
        }
        config
    }

    /// Returns warnings about the pod's annotation: fields that Istio does not know and, for an
    /// admitted pod, zero values without effect.
    pub fn warnings(&self, config: &ProxyConfig, zero_counts: bool) -> Vec<Reason> {
        let Some(layer) = self.annotation else { return Vec::new() };
        let unknown = ProxyConfig::unknown_keys(layer).into_iter().map(|key| {
            let message = format!("annotation {}: {:?}: unknown key", key::PROXY_CONFIG, key.path);
            let reason = Reason::new(words::UNKNOWN_PROXY_CONFIG_KEY, message);
            match key.near {
                Some(near) => reason.with_hint(format!("did you mean {near}?")),
                None => reason,
            }
        });
        let left = if zero_counts { Vec::new() } else { config.left_by(layer) };
        let left = left.into_iter().map(|(name, below)| {
            let message = format!(
                "annotation {}: {name} is zero, which leaves {below} in force",
                key::PROXY_CONFIG
            );
            Reason::new(words::ZERO_IN_PROXY_CONFIG, message)
        });
        unknown.chain(left).collect()
    }

    /// Returns the configuration of a workload in a file. Zero values of the annotation count, as
    /// in Istio's `kube-inject`.
    pub fn for_a_file(&self) -> ProxyConfig {
        let mut config = self.mesh.default_config.clone();
        if let Some(layer) = self.annotation {
            let _ = config.apply(layer);
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn resource(name: &str, created: i64, spec: &Value) -> ProxyConfigResource {
        let (namespace, name) = name.split_once('/').unwrap();
        let created = Timestamp::from_second(created).unwrap();
        let origin = Origin { namespace: namespace.to_owned(), name: name.to_owned(), created };
        ProxyConfigResource::parse(origin, spec).unwrap()
    }

    fn for_shop(resources: Vec<ProxyConfigResource>, annotation: Option<&Value>) -> ProxyConfig {
        let mesh = MeshConfig::parse("defaultConfig: {concurrency: 1}").unwrap();
        let resources = resources.into_iter().collect();
        let labels = json!({"app": "web", "tier": "front"});
        let layers = Layers {
            mesh: &mesh,
            resources: Some(&resources),
            namespace: "shop",
            labels: labels.as_object(),
            annotation,
        };
        layers.for_admission()
    }

    #[test]
    fn proxy_config_layers_equal_istio() {
        let env = |value: &str| json!({"environmentVariables": {"WHO": value, value: "yes"}});
        let mut selecting = env("pod");
        selecting["selector"] = json!({"matchLabels": {"app": "web"}});
        let layers = [
            ("root", resource("istio-system/any", 1, &env("root"))),
            ("namespace", resource("shop/any", 1, &env("namespace"))),
            ("pod", resource("shop/one", 1, &selecting)),
        ];
        for count in 0..=layers.len() {
            let used = &layers[..count];
            let config = for_shop(used.iter().map(|(_, one)| one.clone()).collect(), None);
            assert_eq!(config.metadata("WHO"), used.last().map(|(who, _)| *who));
            for (who, _) in used {
                assert_eq!(config.metadata(who), Some("yes"), "metadata are united");
            }
        }
        let annotation = json!({"proxyMetadata": {"WHO": "annotation"}, "concurrency": 0});
        let [root, namespace, pod] = layers.map(|(_, one)| one);
        let under = for_shop(vec![root, namespace], Some(&annotation));
        assert_eq!(under.metadata("WHO"), Some("annotation"));
        assert_eq!(under.fields()["concurrency"], 0);
        assert_eq!(for_shop(vec![pod], Some(&annotation)).metadata("WHO"), Some("pod"));
    }

    #[test]
    fn oldest_resource_of_the_namespace_is_used() {
        let of = |number: u32| json!({"concurrency": number});
        let config = for_shop(
            vec![
                resource("shop/young", 9, &of(9)),
                resource("shop/b", 5, &of(8)),
                resource("shop/a", 5, &of(7)),
                resource("other/old", 1, &of(6)),
            ],
            None,
        );
        assert_eq!(config.fields()["concurrency"], 7);
        let front = json!({"matchLabels": {"tier": "front", "app": "api"}});
        let mut selecting = of(5);
        selecting["selector"] = front;
        let config = for_shop(vec![resource("shop/one", 1, &selecting)], None);
        assert_eq!(config.fields()["concurrency"], 1);
    }

    #[test]
    fn only_three_resource_fields_are_used() {
        let spec = json!({
            "concurrency": 0, "image": {"imageType": "debug"}, "interceptionMode": "TPROXY",
        });
        let config = for_shop(vec![resource("shop/any", 1, &spec)], None);
        assert_eq!(config.to_json(), r#"{"concurrency":0,"image":{"imageType":"debug"}}"#);
    }

    #[test]
    fn likely_mistakes_in_proxy_config_annotation_get_a_warning() {
        let mesh = MeshConfig::parse("defaultConfig: {interceptionMode: TPROXY}").unwrap();
        let annotation = json!({"interceptionMode": "REDIRECT", "concurency": 2, "meshId": ""});
        let layers = Layers {
            mesh: &mesh,
            resources: None,
            namespace: "shop",
            labels: None,
            annotation: Some(&annotation),
        };
        let problems = |config, zero_counts| {
            let warnings = layers.warnings(&config, zero_counts);
            warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let unknown = "annotation proxy.istio.io/config: \"concurency\": unknown key \
                       (unknown_proxy_config_key); hint: did you mean concurrency?";
        let zero = "annotation proxy.istio.io/config: interceptionMode is zero, which leaves \
                    \"TPROXY\" in force (zero_in_proxy_config)";
        assert_eq!(problems(layers.for_admission(), false), [unknown, zero]);
        assert_eq!(problems(layers.for_a_file(), true), [unknown]);
    }

    #[test]
    fn proxy_config_errors_name_the_field() {
        for (spec, expected) in [
            (json!("x"), "spec: \"x\" is not a mapping"),
            (json!({"concurrency": "many"}), "spec.concurrency: \"many\" is not a whole number"),
            (
                json!({"environmentVariables": {"A": ["b"]}}),
                "spec.environmentVariables.A: [\"b\"] is not a string",
            ),
            (json!({"image": "debug"}), "spec.image: \"debug\" is not a mapping"),
            (
                json!({"selector": {"matchLabels": {"app": 1}}}),
                "spec.selector.matchLabels.app: 1 is not a string",
            ),
        ] {
            let error = ProxyConfigResource::parse(Origin::default(), &spec).unwrap_err();
            assert_eq!(error, expected);
        }
        let nobody = json!({"selector": {}});
        let error = ProxyConfigResource::parse(Origin::default(), &nobody).unwrap_err();
        assert!(error.contains("it selects no pod"), "{error}");
    }

    proptest! {
        #[test]
        fn listing_order_of_resources_has_no_effect(
            numbers in Just((0_u32..8).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let resources = numbers.iter().map(|number| {
                let name = format!("shop/{number}");
                resource(&name, i64::from(number % 3), &json!({"concurrency": number + 10}))
            });
            let config = for_shop(resources.collect(), None);
            prop_assert_eq!(&config.fields()["concurrency"], &json!(10));
        }
    }
}
