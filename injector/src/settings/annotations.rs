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
         Every annotation of a pod that the injector honours. A wrong value denies the pod; the \
         message names all wrong ones. This page is written from the table in \
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
        "`true` or `false`: whether the pod is injected; a label of the same name stands before it; anything else leaves it to the configuration's policy";
    TEMPLATES = "inject.istio.io/templates", AnnotationKind::Templates, "",
        "the templates to inject, by name, separated by commas, instead of the configuration's default";
    PROXY_CONFIG = "proxy.istio.io/config", AnnotationKind::ProxyConfig, "",
        "a layer of the proxy's configuration on top of the mesh's `defaultConfig`";
    OVERRIDES = "proxy.istio.io/overrides", AnnotationKind::Overrides, "",
        "written by injection: the containers that the pod brought itself and that stand over the injected ones";
    NATIVE_SIDECAR = "sidecar.istio.io/nativeSidecar", AnnotationKind::Text, "",
        "`true` or `false`: whether the proxy is an init container with `restartPolicy: Always`";
    INTERCEPTION_MODE = "sidecar.istio.io/interceptionMode", AnnotationKind::InterceptionMode, "",
        "how inbound connections are captured; with `NONE` nothing is captured";
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
        "CPU request of the init container; any of the four `init` annotations replaces all that it has otherwise";
    INIT_MEMORY = "sidecar.outrigger.io/initMemory", AnnotationKind::Quantity, "",
        "memory request of the init container";
    INIT_CPU_LIMIT = "sidecar.outrigger.io/initCPULimit", AnnotationKind::Quantity, "",
        "CPU limit of the init container";
    INIT_MEMORY_LIMIT = "sidecar.outrigger.io/initMemoryLimit", AnnotationKind::Quantity, "",
        "memory limit of the init container";
    LOG_LEVEL = "sidecar.istio.io/logLevel", AnnotationKind::Text, "global.proxy.logLevel",
        "log level of the proxy";
    COMPONENT_LOG_LEVEL = "sidecar.istio.io/componentLogLevel", AnnotationKind::Text, "global.proxy.componentLogLevel",
        "log levels of the proxy's components";
    AGENT_LOG_LEVEL = "sidecar.istio.io/agentLogLevel", AnnotationKind::Text, "global.logging.level",
        "log level of the agent and the init container";
    BOOTSTRAP_OVERRIDE = "sidecar.istio.io/bootstrapOverride", AnnotationKind::ConfigMap, "",
        "a ConfigMap with a bootstrap that the proxy starts from";
    USER_VOLUME = "sidecar.istio.io/userVolume", AnnotationKind::Volumes, "",
        "volumes to add to the pod; the names of their fields are read whatever their case";
    USER_VOLUME_MOUNT = "sidecar.istio.io/userVolumeMount", AnnotationKind::VolumeMounts, "",
        "mounts to add to the proxy; the names of their fields are read whatever their case";
    REWRITE_APP_PROBES = "sidecar.istio.io/rewriteAppHTTPProbers", AnnotationKind::Text, "sidecarInjectorWebhook.rewriteAppHTTPProbe",
        "`true` or `false`: whether the application's probes are answered through the agent";
    STATUS_PORT = "status.sidecar.istio.io/port", AnnotationKind::Port, "global.proxy.statusPort",
        "where the agent answers probes and metrics; 0 drops the proxy's own probes";
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
        "ports of the pod whose connections are not captured, where all others are";
    INCLUDE_OUTBOUND_PORTS = "traffic.sidecar.istio.io/includeOutboundPorts", AnnotationKind::PortRanges, "global.proxy.includeOutboundPorts",
        "destination ports whose connections are captured whatever the address";
    EXCLUDE_OUTBOUND_PORTS = "traffic.sidecar.istio.io/excludeOutboundPorts", AnnotationKind::Ports, "global.proxy.excludeOutboundPorts",
        "destination ports whose connections are not captured";
    EXCLUDE_INTERFACES = "traffic.sidecar.istio.io/excludeInterfaces", AnnotationKind::Interfaces, "",
        "network interfaces on which nothing is captured";
    KUBEVIRT_INTERFACES = "traffic.sidecar.istio.io/kubevirtInterfaces", AnnotationKind::Interfaces, "",
        "network interfaces of virtual machines whose inbound connections count as outbound ones";
    REROUTE_VIRTUAL_INTERFACES = "istio.io/reroute-virtual-interfaces", AnnotationKind::Interfaces, "",
        "as `traffic.sidecar.istio.io/kubevirtInterfaces`, and stands before it";
    MERGE_METRICS = "prometheus.istio.io/merge-metrics", AnnotationKind::Switch, "",
        "`true` or `false`: whether the agent serves the application's metrics beside the proxy's";
    DATADOG_ENV = "apm.datadoghq.com/env", AnnotationKind::Environment, "",
        "environment for the proxy where the tracer is Datadog: a JSON object";
    PROMETHEUS_SCRAPE = "prometheus.io/scrape", AnnotationKind::Text, "",
        "`false`: the application's metrics are not merged with the proxy's, and this and the next two stay as they are; otherwise they point to the agent afterwards";
    PROMETHEUS_PORT = "prometheus.io/port", AnnotationKind::Text, "",
        "where the application's metrics are: a port from 1 to 65535 that is none of the proxy's";
    PROMETHEUS_PATH = "prometheus.io/path", AnnotationKind::Text, "",
        "where the application's metrics are: the path";
    SCRAPE_TARGETS = "prometheus.istio.io/scrape-targets", AnnotationKind::Text, "",
        "several places of the application's metrics, instead of `prometheus.io/port` and `path`: `port:path`, separated by commas";
    SECURE_PORT = "prometheus.istio.io/secure-port", AnnotationKind::Text, "",
        "where the merged metrics are served over TLS; written by injection where the proxy has `ENVOY_SECURE_MERGED_METRICS_PORT` and the pod does not say otherwise";
    DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container", AnnotationKind::Text, "",
        "the container that `kubectl exec` means; without it the first of the application's";
    DEFAULT_LOGS_CONTAINER = "kubectl.kubernetes.io/default-logs-container", AnnotationKind::Text, "",
        "the container that `kubectl logs` means; without it the first of the application's";
    CNI_NETWORKS = "k8s.v1.cni.cncf.io/networks", AnnotationKind::Text, "",
        "the networks that Multus attaches; Istio's is added where `pilot.cni.provider` is `multus`";
    OTEL_NAMESPACE = "resource.opentelemetry.io/service.namespace", AnnotationKind::Text, "",
        "`service.namespace` in the spans of the proxy, where a tracing provider asks for the semantic conventions";
    OTEL_VERSION = "resource.opentelemetry.io/service.version", AnnotationKind::Text, "",
        "`service.version` in the same spans";
    OTEL_INSTANCE = "resource.opentelemetry.io/service.instance.id", AnnotationKind::Text, "",
        "`service.instance.id` in the same spans";
    STATUS = "sidecar.istio.io/status", AnnotationKind::Text, "",
        "written by injection: what it put into the pod; a later injection reads it";
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
    fn all_wrong_annotations_are_named() {
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
    fn values_are_held_to_what_their_annotations_are() {
        let error = check_values(&json!({"global": {"proxy": {"statusPort": "abc"}}})).unwrap_err();
        assert_eq!(error, "global.proxy.statusPort: \"abc\" is not a port from 0 to 65535");
        let good = json!({"global": {"proxy": {"includeIPRanges": "*", "statusPort": 15020}}});
        assert_eq!(check_values(&good), Ok(Vec::new()));
        let odd = check_values(&json!({"global": {"proxy": {"includeIPRanges": "bad"}}}));
        assert_eq!(odd.unwrap()[0].0, "global.proxy.includeIPRanges");
    }

    #[test]
    fn keys_are_unique() {
        let mut keys: Vec<_> = HONOURED.iter().map(|honoured| honoured.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), HONOURED.len());
    }

    #[test]
    fn the_reference_page_is_current() {
        reference_pages::check("annotations.md", &reference());
    }
}
