//! The node that the agent presents to the control plane: id, cluster, locality, metadata.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::config::{Config, RootSource};

/// The node, as Envoy and the agent send it in the first request of a stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Node {
    /// `sidecar~ADDRESS~POD.NAMESPACE~DOMAIN`.
    pub id: String,
    /// Name of the service for tracing and statistics.
    pub cluster: String,
    /// Place of the pod.
    pub locality: Locality,
    /// Metadata.
    pub metadata: Map<String, Value>,
}

/// Place of a pod. Unknown parts are empty.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Locality {
    /// Region.
    pub region: String,
    /// Zone.
    pub zone: String,
    /// Subdivision of the zone.
    pub sub_zone: String,
}

impl Node {
    /// Returns the node of a configuration.
    pub fn new(config: &Config) -> Self {
        let labels = labels(config);
        Self {
            id: config.pod.node_id.clone(),
            cluster: cluster(config, &labels),
            locality: Locality::new(config, &labels),
            metadata: metadata(config, &labels),
        }
    }

    /// Returns the node as Envoy's bootstrap has it.
    pub fn to_json(&self) -> Value {
        let mut node = json!({"id": self.id, "cluster": self.cluster, "metadata": self.metadata});
        let Locality { region, zone, sub_zone } = &self.locality;
        let parts = [("region", region), ("zone", zone), ("sub_zone", sub_zone)];
        let known = parts.into_iter().filter(|(_, part)| !part.is_empty());
        let locality: Map<_, _> =
            known.map(|(key, part)| (key.to_owned(), part.as_str().into())).collect();
        if !locality.is_empty() {
            node["locality"] = Value::Object(locality);
        }
        node
    }
}

impl Locality {
    /// Parses the label `istio-locality`, whose `.` stands for `/`. `--availabilityZone` names the
    /// zone where the label does not.
    fn new(config: &Config, labels: &BTreeMap<String, String>) -> Self {
        let label = labels.get("istio-locality").map_or("", String::as_str);
        let separator = if label.contains('/') { '/' } else { '.' };
        let mut parts = label.splitn(3, separator).map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        let (region, zone, sub_zone) = (next(), next(), next());
        let zone = if zone.is_empty() {
            config.proxy_config.text_at("availabilityZone").to_owned()
        } else {
            zone
        };
        Self { region, zone, sub_zone }
    }
}

/// Returns the labels: those of the file over those of `ISTIO_METAJSON_LABELS`.
fn labels(config: &Config) -> BTreeMap<String, String> {
    let given = config.metadata.get("LABELS").and_then(Value::as_object).into_iter().flatten();
    let given = given.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    let mut labels: BTreeMap<_, _> = given.chain(config.labels.clone()).collect();
    labels.remove("pod-template-hash");
    labels
}

/// Returns the name of the service.
fn cluster(config: &Config, labels: &BTreeMap<String, String>) -> String {
    let label = |key: &str| labels.get(key).map(String::as_str).filter(|text| !text.is_empty());
    let metadata = |key: &str| config.metadata.get(key).and_then(Value::as_str);
    let namespace = &config.pod.namespace;
    let workload = metadata("WORKLOAD_NAME").filter(|name| !name.is_empty());
    let canonical = label("service.istio.io/canonical-name")
        .or_else(|| label("app.kubernetes.io/name"))
        .or_else(|| label("app"))
        .or(workload);
    let service_cluster = config.proxy_config.text_at("serviceCluster");
    let by_app = || label("app").or(workload).map(|name| format!("{name}.{namespace}"));
    let name = match config.proxy_config.text_at("tracingServiceName") {
        "CANONICAL_NAME_ONLY" => canonical.map(str::to_owned),
        "CANONICAL_NAME_AND_NAMESPACE" => canonical.map(|name| format!("{name}.{namespace}")),
        "" if !["", DEFAULT_SERVICE_CLUSTER].contains(&service_cluster) => {
            Some(service_cluster.to_owned())
        }
        _ => by_app(),
    };
    name.unwrap_or_else(|| format!("{DEFAULT_SERVICE_CLUSTER}.{namespace}"))
}

/// Returns the metadata. Typed entries override those of the environment.
fn metadata(config: &Config, labels: &BTreeMap<String, String>) -> Map<String, Value> {
    let mut metadata = config.metadata.clone();
    let pod = &config.pod;
    let mut put = |key: &str, value: Value| {
        metadata.insert(key.to_owned(), value);
    };
    put("NAME", pod.name.as_str().into());
    put("NAMESPACE", pod.namespace.as_str().into());
    let addresses: Vec<_> = pod.addresses.iter().map(ToString::to_string).collect();
    put("INSTANCE_IPS", addresses.join(",").into());
    put("LABELS", json!(labels));
    put("ANNOTATIONS", annotations(config));
    // Istio's control plane ignores it and sends one table, which the agent takes too.
    put("NAMES_BY_HOST", "true".into());
    put("HTTP_BY_METHOD", "true".into());
    put("CLUSTER_ID", pod.cluster_id.as_str().into());
    put("PROXY_CONFIG", Value::Object(config.proxy_config.fields().clone()));
    let host = config.discovery.address.rsplit_once(':').map_or("", |(host, _)| host);
    let server = config.discovery.server_name.as_deref().unwrap_or(host);
    put("PILOT_SAN", json!([server]));
    if !pod.service_account.is_empty() {
        put("SERVICE_ACCOUNT", pod.service_account.as_str().into());
    }
    if let (RootSource::File(root), false) = (&config.discovery.root, config.discovery.plaintext) {
        put("XDS_ROOT_CERT", root.display().to_string().into());
    }
    if let Some(envoy) = &config.envoy {
        put("ENVOY_STATUS_PORT", envoy.readiness_port.into());
        put("ENVOY_PROMETHEUS_PORT", envoy.prometheus_port.into());
    }
    if let Some(path) = &config.bootstrap.outlier_log_path {
        put("OUTLIER_LOG_PATH", path.as_str().into());
    }
    if config.drain.exit_on_zero_connections {
        put("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "true".into());
    }
    if let Some(folder) = &config.certificates.provisioned {
        put("PROV_CERT", folder.display().to_string().into());
    }
    // istiod enables features by the version of Istio that the proxy names.
    metadata.entry("ISTIO_VERSION").or_insert_with(|| ISTIO_VERSION.into());
    metadata
}

/// Returns the annotations that discovery reads. All of them could take 256 KiB.
fn annotations(config: &Config) -> Value {
    let given = config.metadata.get("ANNOTATIONS").and_then(Value::as_object);
    let find = |key: &str| {
        let of_pod = config.annotations.get(key).map(String::as_str);
        of_pod.or_else(|| given?.get(key)?.as_str())
    };
    let read = ANNOTATIONS.iter().filter_map(|key| Some(((*key).to_owned(), find(key)?.into())));
    Value::Object(read.collect())
}

/// Keys of the metadata with their meaning, for the reference page. Others come from variables
/// `ISTIO_META_*` and `ISTIO_METAJSON_*`.
pub const KEYS: &[(&str, &str)] = &[
    ("ANNOTATIONS", "Annotations of the pod that discovery reads"),
    ("CLUSTER_ID", "Id of the Kubernetes cluster"),
    ("ENVOY_PROMETHEUS_PORT", "Port of the metrics listener"),
    ("ENVOY_STATUS_PORT", "Port of the readiness listener"),
    ("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "Draining ends with the last connection"),
    ("INSTANCE_IPS", "Addresses of the pod, separated by commas"),
    (
        "ISTIO_VERSION",
        "Version of Istio whose protocol the agent speaks, unless `ISTIO_META_ISTIO_VERSION` is \
         set",
    ),
    ("LABELS", "Labels of the pod, without `pod-template-hash`"),
    ("NAME", "Name of the pod"),
    ("NAMESPACE", "Namespace of the pod"),
    ("OUTLIER_LOG_PATH", "File for events of outlier detection"),
    ("PILOT_SAN", "Name in the control plane's certificate"),
    ("PROV_CERT", "Folder of the certificate for the control plane"),
    ("PROXY_CONFIG", "Merged `ProxyConfig`"),
    ("SERVICE_ACCOUNT", "Name of the pod's `ServiceAccount`"),
    ("XDS_ROOT_CERT", "File with the control plane's root certificates"),
];

/// Annotations in the metadata.
pub const ANNOTATIONS: &[&str] = &[
    "prometheus.istio.io/secure-port",
    "resource.opentelemetry.io/service.instance.id",
    "resource.opentelemetry.io/service.namespace",
    "resource.opentelemetry.io/service.version",
    "sidecar.istio.io/extraStatTags",
    "sidecar.istio.io/interceptionMode",
    "traffic.sidecar.istio.io/excludeInboundPorts",
    "traffic.sidecar.istio.io/includeInboundPorts",
];

const DEFAULT_SERVICE_CLUSTER: &str = "istio-proxy";
const ISTIO_VERSION: &str = "1.31.0";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{Case, resolved};

    fn node(case: &Case<'_>) -> Node {
        Node::new(&resolved(case).config)
    }

    #[test]
    fn node_of_a_sidecar() {
        let node = node(&Case {
            environment: &[
                ("ISTIO_META_WORKLOAD_NAME", "web-v1"),
                ("ISTIO_META_NODE_NAME", "node-1"),
                (
                    "ISTIO_META_OWNER",
                    "kubernetes://apis/apps/v1/namespaces/shop/deployments/web-v1",
                ),
                ("ISTIO_META_POD_PORTS", "[\n    {\"containerPort\":80}\n]"),
                ("ISTIO_META_INTERCEPTION_MODE", "REDIRECT"),
                ("ISTIO_METAJSON_LABELS", r#"{"app": "below", "version": "v1"}"#),
                ("PROXY_CONFIG", r#"{"concurrency":2}"#),
            ],
            labels: "app=\"web\"\npod-template-hash=\"5d4\"\nistio-locality=\"eu.eu-1.a\"\n",
            annotations: "secret=\"not sent\"\nsidecar.istio.io/interceptionMode=\"TPROXY\"\n",
            ..Case::default()
        });
        insta::assert_json_snapshot!(node.to_json());
    }

    #[test]
    fn cluster_is_named_after_the_service() {
        let labels = "app=\"web\"\nservice.istio.io/canonical-name=\"shop-web\"\n";
        for (layer, labels, expected) in [
            ("{}", labels, "web.shop"),
            ("{}", "", "istio-proxy.shop"),
            (r#"{"serviceCluster": "mine"}"#, labels, "mine"),
            (r#"{"tracingServiceName": "APP_LABEL_AND_NAMESPACE"}"#, labels, "web.shop"),
            (r#"{"tracingServiceName": "CANONICAL_NAME_ONLY"}"#, labels, "shop-web"),
            (r#"{"tracingServiceName": "CANONICAL_NAME_AND_NAMESPACE"}"#, labels, "shop-web.shop"),
        ] {
            let environment = &[("PROXY_CONFIG", layer)];
            let node = node(&Case { environment, labels, ..Case::default() });
            assert_eq!(node.cluster, expected, "{layer}");
        }
        let environment = &[("ISTIO_META_WORKLOAD_NAME", "job")];
        assert_eq!(node(&Case { environment, ..Case::default() }).cluster, "job.shop");
    }

    #[test]
    fn locality_comes_from_the_label() {
        for (label, flags, expected) in [
            ("eu.eu-1.a", "", ["eu", "eu-1", "a"]),
            ("eu/eu.1/a", "", ["eu", "eu.1", "a"]),
            ("eu", "--availabilityZone z", ["eu", "z", ""]),
        ] {
            let labels = format!("istio-locality=\"{label}\"\n");
            let Locality { region, zone, sub_zone } =
                node(&Case { flags, labels: &labels, ..Case::default() }).locality;
            assert_eq!([region, zone, sub_zone], expected, "{label}");
        }
    }

    #[test]
    fn later_metadata_sources_override_earlier_ones() {
        let node = node(&Case {
            environment: &[
                (
                    "PROXY_CONFIG",
                    r#"{"proxyMetadata": {"ISTIO_META_A": "1", "ISTIO_META_B": "1",
                        "ISTIO_META_C": "1", "X": "1"}}"#,
                ),
                ("ISTIO_META_B", "2"),
                ("ISTIO_META_C", "2"),
                ("ISTIO_META_NAME", "2"),
                ("ISTIO_METAJSON_MORE", r#"{"C": 3, "D": [4]}"#),
            ],
            ..Case::default()
        });
        let values = ["A", "B", "C", "D", "NAME", "X"].map(|key| node.metadata.get(key).cloned());
        let expected = [
            Some(json!("1")),
            Some(json!("2")),
            Some(json!(3)),
            Some(json!([4])),
            Some(json!("web")),
            None,
        ];
        assert_eq!(values, expected);
    }
}
