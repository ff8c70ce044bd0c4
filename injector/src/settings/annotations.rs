//! Every supported annotation. One table of name, type and meaning drives the lookup, the
//! validation and the reference page.

use std::borrow::Cow;
use std::fmt::Write as _;

use documents::excerpt;
use documents::notice::Oddity;
use serde_json::{Map, Value};

use super::annotation_kind::AnnotationKind;

/// A pod's annotations. Every supported one is valid.
#[derive(Clone, Copy, Debug, Default)]
pub struct Annotations<'a> {
    entries: Option<&'a Map<String, Value>>,
}

impl<'a> Annotations<'a> {
    /// Returns a pod's annotations and every invalid one. The annotations may be used only if there
    /// are no errors.
    pub fn from_pod(pod: &'a Value) -> (Self, Vec<AnnotationError>) {
        let annotations = Self { entries: pod["metadata"]["annotations"].as_object() };
        let errors = HONOURED
            .iter()
            .filter_map(|honoured| {
                let value = annotations.get(honoured.key)?;
                let mut problem = honoured.kind.check(value).err()?;
                if !honoured.default.is_empty() {
                    let _ = write!(problem, "; without it {} applies", honoured.default);
                }
                let value = value.to_owned();
                Some(AnnotationError { key: honoured.key.into(), value, problem })
            })
            .collect();
        (annotations, errors)
    }

    /// Returns the annotation's value if the pod has it; the value may be empty.
    pub fn get(self, key: &str) -> Option<&'a str> {
        self.entries?.get(key)?.as_str()
    }

    /// Returns the annotation's value, which may be empty, or else the default.
    pub fn or(self, key: &str, default: &'a str) -> &'a str {
        self.get(key).unwrap_or(default)
    }

    /// Returns all annotations by key.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let entries = self.entries.into_iter().flatten();
        entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }
}

/// Validates the Helm values that are defaults of annotations. The error names the first value that
/// no pod could have.
///
/// Istio does not check lists, and only `istio-init` parses them. An invalid list is therefore a
/// warning: the path of the value and its problem.
pub(super) fn check_values(values: &Value) -> Result<Vec<Oddity>, String> {
    let mut odd = Vec::new();
    for Honoured { kind, default, .. } in HONOURED {
        let text = match default.split('.').try_fold(values, |value, key| value.get(key)) {
            Some(Value::String(text)) if !text.is_empty() => text.clone(),
            Some(number @ Value::Number(_)) => number.to_string(),
            _ => continue,
        };
        let kind = kind.in_values();
        match kind.check(&text) {
            Ok(()) => {}
            Err(problem) if kind.is_list() => {
                odd.push(((*default).to_owned(), format!("{text:?} {problem}")));
            }
            Err(problem) => return Err(format!("{default}: {text:?} {problem}")),
        }
    }
    Ok(odd)
}

/// An invalid annotation value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("annotation {key}: {:?} {}", excerpt::shorten(value), excerpt::shorten(problem))]
pub struct AnnotationError {
    /// The annotation's key as the user wrote it.
    pub key: Cow<'static, str>,
    /// The value as the user wrote it.
    pub value: String,
    /// The problem, and the allowed values.
    pub problem: String,
}

/// One supported annotation.
#[derive(Clone, Copy, Debug)]
pub struct Honoured {
    /// Its key.
    pub key: &'static str,
    /// The type of its value.
    pub kind: AnnotationKind,
    /// The Helm value that applies if the annotation is absent; empty if there is none.
    pub default: &'static str,
    /// The effect of the annotation.
    pub meaning: &'static str,
}

/// Returns the reference page of the annotations in Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Annotations\n\n\
         Every annotation of a pod that the injector honours. An invalid value denies the pod; the message names all invalid ones. This page is written from the table in \
         `injector/src/settings/annotations.rs`.\n\n\
         | annotation | value | without it | meaning |\n| --- | --- | --- | --- |\n",
    );
    for Honoured { key, kind, default, meaning } in HONOURED {
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let _ = writeln!(page, "| `{key}` | {} | {default} | {meaning} |", kind.allowed());
    }
    page
}

macro_rules! keys {
    ($($name:ident = $key:literal, $kind:expr, $default:literal, $meaning:literal;)*) => {
        /// The annotations' keys.
        pub mod key {
            $(#[doc = $meaning] pub const $name: &str = $key;)*
        }

        /// The table.
        pub const HONOURED: &[Honoured] =
            &[$(Honoured { key: $key, kind: $kind, default: $default, meaning: $meaning }),*];
    };
}

keys! {
    INJECT = "sidecar.istio.io/inject", AnnotationKind::Text, "",
        "`true` injects the pod, `false` skips it; a label of the same name takes precedence; any other value leaves the decision to the policy";
    TEMPLATES = "inject.istio.io/templates", AnnotationKind::Templates, "",
        "the templates to inject, by name, separated by commas, instead of the configuration's default";
    PROXY_CONFIG = "proxy.istio.io/config", AnnotationKind::ProxyConfig, "",
        "a layer of the proxy's configuration on top of the mesh's `defaultConfig`";
    OVERRIDES = "proxy.istio.io/overrides", AnnotationKind::Overrides, "",
        "written by injection: the user-supplied containers, which override the injected ones";
    NATIVE_SIDECAR = "sidecar.istio.io/nativeSidecar", AnnotationKind::Text, "",
        "`true` makes the proxy an init container with `restartPolicy: Always`, `false` a container";
    INTERCEPTION_MODE = "sidecar.istio.io/interceptionMode", AnnotationKind::InterceptionMode, "",
        "capture mode of inbound connections; with `NONE` nothing is captured";
    CAP_NET_BIND_SERVICE = "sidecar.istio.io/capNetBindService", AnnotationKind::Text, "global.proxy.capNetBindService",
        "`true`: the proxy may bind ports below 1024";
    PROXY_IMAGE = "sidecar.istio.io/proxyImage", AnnotationKind::Image, "global.proxy.image",
        "the image of the proxy and of the init container, if it contains a `/`";
    PROXY_IMAGE_TYPE = "sidecar.istio.io/proxyImageType", AnnotationKind::Tag, "global.variant",
        "the variant of the proxy's image: `default`, `debug`, `distroless`";
    PROXY_CPU = "sidecar.istio.io/proxyCPU", AnnotationKind::Quantity, "global.proxy.resources",
        "CPU request of the proxy and the init container; any of the four resource annotations replaces all default resources";
    PROXY_MEMORY = "sidecar.istio.io/proxyMemory", AnnotationKind::Quantity, "global.proxy.resources",
        "memory request of the proxy and the init container";
    PROXY_CPU_LIMIT = "sidecar.istio.io/proxyCPULimit", AnnotationKind::Quantity, "global.proxy.resources",
        "CPU limit of the proxy and the init container";
    PROXY_MEMORY_LIMIT = "sidecar.istio.io/proxyMemoryLimit", AnnotationKind::Quantity, "global.proxy.resources",
        "memory limit of the proxy and the init container";
    INIT_CPU = "sidecar.outrigger.io/initCPU", AnnotationKind::Quantity, "",
        "CPU request of the init container; any of the four `init` annotations replaces all its default resources";
    INIT_MEMORY = "sidecar.outrigger.io/initMemory", AnnotationKind::Quantity, "",
        "memory request of the init container";
    INIT_CPU_LIMIT = "sidecar.outrigger.io/initCPULimit", AnnotationKind::Quantity, "",
        "CPU limit of the init container";
    INIT_MEMORY_LIMIT = "sidecar.outrigger.io/initMemoryLimit", AnnotationKind::Quantity, "",
        "memory limit of the init container";
    LOG_LEVEL = "sidecar.istio.io/logLevel", AnnotationKind::LogLevel, "global.proxy.logLevel",
        "log level of the proxy";
    COMPONENT_LOG_LEVEL = "sidecar.istio.io/componentLogLevel", AnnotationKind::ComponentLogLevels, "global.proxy.componentLogLevel",
        "log levels of the proxy's components";
    AGENT_LOG_LEVEL = "sidecar.istio.io/agentLogLevel", AnnotationKind::AgentLogLevels, "global.logging.level",
        "log level of the agent and the init container";
    DISCOVERY_ADDRESS = "sidecar.istio.io/discoveryAddress", AnnotationKind::Address, "",
        "`discoveryAddress` of the proxy, above `proxy.istio.io/config`; the agent reads it";
    STATS_PREFIXES = "sidecar.istio.io/statsInclusionPrefixes", AnnotationKind::Text, "",
        "prefixes of statistics that Envoy keeps; the agent reads it and the next seven";
    STATS_SUFFIXES = "sidecar.istio.io/statsInclusionSuffixes", AnnotationKind::Text, "",
        "suffixes of statistics that Envoy keeps";
    STATS_REGEXPS = "sidecar.istio.io/statsInclusionRegexps", AnnotationKind::Text, "",
        "regular expressions of statistics that Envoy keeps";
    EXTRA_STAT_TAGS = "sidecar.istio.io/extraStatTags", AnnotationKind::StatTags, "",
        "additional tags of statistics";
    HISTOGRAM_BUCKETS = "sidecar.istio.io/statsHistogramBuckets", AnnotationKind::HistogramBuckets, "",
        "buckets of histograms";
    FLUSH_INTERVAL = "sidecar.istio.io/statsFlushInterval", AnnotationKind::StatsInterval, "",
        "interval at which Envoy flushes statistics";
    EVICTION_INTERVAL = "sidecar.istio.io/statsEvictionInterval", AnnotationKind::StatsInterval, "",
        "interval at which Envoy evicts unused statistics, a multiple of the flush interval";
    STATS_COMPRESSION = "sidecar.istio.io/statsCompression", AnnotationKind::Switch, "",
        "`false`: Envoy does not compress its metrics";
    BOOTSTRAP_OVERRIDE = "sidecar.istio.io/bootstrapOverride", AnnotationKind::ConfigMap, "",
        "the ConfigMap with the proxy's bootstrap";
    USER_VOLUME = "sidecar.istio.io/userVolume", AnnotationKind::Volumes, "",
        "volumes to add to the pod; field names match in any letter case";
    USER_VOLUME_MOUNT = "sidecar.istio.io/userVolumeMount", AnnotationKind::VolumeMounts, "",
        "mounts to add to the proxy; field names match in any letter case";
    REWRITE_APP_PROBES = "sidecar.istio.io/rewriteAppHTTPProbers", AnnotationKind::Text, "sidecarInjectorWebhook.rewriteAppHTTPProbe",
        "`true` redirects the application's probes to the agent, `false` leaves them unchanged";
    STATUS_PORT = "status.sidecar.istio.io/port", AnnotationKind::Port, "global.proxy.statusPort",
        "port on which the agent answers probes and metrics; 0 removes the proxy's own probes";
    READINESS_INITIAL_DELAY = "readiness.status.sidecar.istio.io/initialDelaySeconds", AnnotationKind::Seconds, "global.proxy.readinessInitialDelaySeconds",
        "`initialDelaySeconds` of the proxy's readiness probe";
    READINESS_PERIOD = "readiness.status.sidecar.istio.io/periodSeconds", AnnotationKind::Seconds, "global.proxy.readinessPeriodSeconds",
        "`periodSeconds` of the proxy's readiness probe";
    READINESS_FAILURE_THRESHOLD = "readiness.status.sidecar.istio.io/failureThreshold", AnnotationKind::Seconds, "global.proxy.readinessFailureThreshold",
        "`failureThreshold` of the proxy's readiness probe";
    INCLUDE_OUTBOUND_IP_RANGES = "traffic.sidecar.istio.io/includeOutboundIPRanges", AnnotationKind::CidrsOrAll, "global.proxy.includeIPRanges",
        "destinations whose connections are captured";
    EXCLUDE_OUTBOUND_IP_RANGES = "traffic.sidecar.istio.io/excludeOutboundIPRanges", AnnotationKind::Cidrs, "global.proxy.excludeIPRanges",
        "destinations whose connections are not captured";
    INCLUDE_INBOUND_PORTS = "traffic.sidecar.istio.io/includeInboundPorts", AnnotationKind::PortsOrAll, "global.proxy.includeInboundPorts",
        "ports of the pod whose connections are captured";
    EXCLUDE_INBOUND_PORTS = "traffic.sidecar.istio.io/excludeInboundPorts", AnnotationKind::Ports, "global.proxy.excludeInboundPorts",
        "ports of the pod whose connections are not captured if all others are";
    INCLUDE_OUTBOUND_PORTS = "traffic.sidecar.istio.io/includeOutboundPorts", AnnotationKind::PortRanges, "global.proxy.includeOutboundPorts",
        "destination ports whose connections are captured at any address";
    EXCLUDE_OUTBOUND_PORTS = "traffic.sidecar.istio.io/excludeOutboundPorts", AnnotationKind::Ports, "global.proxy.excludeOutboundPorts",
        "destination ports whose connections are not captured";
    EXCLUDE_INTERFACES = "traffic.sidecar.istio.io/excludeInterfaces", AnnotationKind::Interfaces, "",
        "network interfaces whose connections are not captured";
    KUBEVIRT_INTERFACES = "traffic.sidecar.istio.io/kubevirtInterfaces", AnnotationKind::Interfaces, "",
        "network interfaces of virtual machines whose inbound connections count as outbound ones";
    REROUTE_VIRTUAL_INTERFACES = "istio.io/reroute-virtual-interfaces", AnnotationKind::Interfaces, "",
        "same as `traffic.sidecar.istio.io/kubevirtInterfaces`, and takes precedence";
    MERGE_METRICS = "prometheus.istio.io/merge-metrics", AnnotationKind::Switch, "",
        "`true` makes the agent serve the application's metrics beside the proxy's, `false` prevents it";
    DATADOG_ENV = "apm.datadoghq.com/env", AnnotationKind::Environment, "",
        "environment for the proxy if the tracer is Datadog: a JSON object";
    PROMETHEUS_SCRAPE = "prometheus.io/scrape", AnnotationKind::Text, "",
        "`false`: the application's metrics are not merged with the proxy's, and this annotation and the next three stay unchanged; otherwise they point to the agent after injection";
    PROMETHEUS_PORT = "prometheus.io/port", AnnotationKind::Text, "",
        "port of the application's metrics, from 1 to 65535; not a port of the proxy";
    PROMETHEUS_PATH = "prometheus.io/path", AnnotationKind::Text, "",
        "path of the application's metrics";
    PROMETHEUS_SCHEME = "prometheus.io/scheme", AnnotationKind::Text, "",
        "`https`: the agent reads the application's metrics over TLS, without verifying the certificate; `http` after injection";
    SCRAPE_TARGETS = "prometheus.istio.io/scrape-targets", AnnotationKind::Text, "",
        "several endpoints of the application's metrics, instead of `prometheus.io/port` and `path`: `port:path`, separated by commas";
    SECURE_PORT = "prometheus.istio.io/secure-port", AnnotationKind::Text, "",
        "port that serves the merged metrics over TLS; written by injection if the proxy has `ENVOY_SECURE_MERGED_METRICS_PORT` and the pod does not set it";
    DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container", AnnotationKind::Text, "",
        "default container of `kubectl exec`; without it the application's first container";
    DEFAULT_LOGS_CONTAINER = "kubectl.kubernetes.io/default-logs-container", AnnotationKind::Text, "",
        "default container of `kubectl logs`; without it the application's first container";
    CNI_NETWORKS = "k8s.v1.cni.cncf.io/networks", AnnotationKind::Text, "",
        "the networks that Multus attaches; Istio's is added if `pilot.cni.provider` is `multus`";
    OTEL_NAMESPACE = "resource.opentelemetry.io/service.namespace", AnnotationKind::Text, "",
        "`service.namespace` in the spans of the proxy, if a tracing provider uses the semantic conventions";
    OTEL_VERSION = "resource.opentelemetry.io/service.version", AnnotationKind::Text, "",
        "`service.version` in the same spans";
    OTEL_INSTANCE = "resource.opentelemetry.io/service.instance.id", AnnotationKind::Text, "",
        "`service.instance.id` in the same spans";
    STATUS = "sidecar.istio.io/status", AnnotationKind::Text, "",
        "written by injection: names of the injected containers and volumes, read by reinjection";
    CAPTURE = "sidecar.outrigger.io/capture", AnnotationKind::Text, "",
        "written by injection if `outrigger.captureRequest` is `write`: what the CNI plugin captures";
    ORIGINAL = "sidecar.outrigger.io/original", AnnotationKind::Text, "",
        "written by injection unless `outrigger.recordOriginal` is `omit`: values before injection that the pod does not show, read by `uninject`";
    REVISION = "istio.io/rev", AnnotationKind::Text, "",
        "written by injection: the revision that injected the pod";
    APPLICATION_PORTS = "readiness.status.sidecar.istio.io/applicationPorts", AnnotationKind::Text, "",
        "nothing, as in Istio";
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_invalid_annotations_are_named() {
        let pod = json!({"metadata": {"annotations": {
            key::PROXY_CPU: "100 m",
            key::INCLUDE_OUTBOUND_PORTS: "80\"\n - \"--x",
            key::STATUS_PORT: "15020",
        }}});
        let (_, errors) = Annotations::from_pod(&pod);
        let keys: Vec<_> = errors.iter().map(|error| &*error.key).collect();
        assert_eq!(keys, [key::PROXY_CPU, key::INCLUDE_OUTBOUND_PORTS]);
        assert_eq!(
            errors[0].to_string(),
            "annotation sidecar.istio.io/proxyCPU: \"100 m\" is not a quantity such as 100m, 2 or 128Mi; \
             without it global.proxy.resources applies"
        );
    }

    #[test]
    fn values_are_validated_by_their_annotation_kind() {
        let error = check_values(&json!({"global": {"proxy": {"statusPort": "abc"}}})).unwrap_err();
        assert_eq!(error, "global.proxy.statusPort: \"abc\" is not a port from 0 to 65535");
        for (values, path) in [
            (json!({"global": {"proxy": {"logLevel": "loud"}}}), "global.proxy.logLevel"),
            (json!({"global": {"logging": {"level": "loud"}}}), "global.logging.level"),
            (json!({"global": {"proxy": {"image": "a/b c"}}}), "global.proxy.image"),
        ] {
            assert!(check_values(&values).unwrap_err().starts_with(path), "{path}");
        }
        let good = json!({"global": {"proxy": {"includeIPRanges": "*", "statusPort": 15020}}});
        assert_eq!(check_values(&good), Ok(Vec::new()));
        let odd = check_values(&json!({"global": {"proxy": {"includeIPRanges": "bad"}}}));
        assert_eq!(odd.unwrap()[0].0, "global.proxy.includeIPRanges");
    }

    #[test]
    fn annotation_keys_are_unique() {
        let mut keys: Vec<_> = HONOURED.iter().map(|honoured| honoured.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), HONOURED.len());
    }

    #[test]
    fn annotation_reference_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/annotations.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        if page != reference() {
            std::fs::write(path, reference()).unwrap();
            panic!("docs/annotations.md was not current and has been written anew: commit it");
        }
    }
}
