//! Generated pods and their building blocks.

use proptest::prelude::*;
use serde_json::{Value, json};

pub(crate) fn pod() -> impl Strategy<Value = Value> {
    let containers = prop::collection::vec(container(), 1..4);
    let spec = prop_oneof![
        Just(json!({})),
        Just(json!({"serviceAccountName": "cart"})),
        Just(json!({"volumes": [{"name": "data", "emptyDir": {}}]})),
        Just(
            json!({"volumes": [{"name": "istio-data", "configMap": {"name": "c"}}, {"name": "data", "nfs": {}}]})
        ),
        Just(json!({"serviceAccountName": "", "dnsPolicy": "None", "initContainers": [
            {"name": "side", "image": "b", "restartPolicy": "Always", "startupProbe": {"tcpSocket": {"port": 83}}}]})),
        Just(
            json!({"initContainers": [{"name": "setup", "image": "b"}], "imagePullSecrets": [{"name": "k"}]})
        ),
    ];
    (containers, spec, labels(), annotations(), owner()).prop_map(
        |(containers, mut spec, labels, annotations, mut metadata)| {
            let containers = containers.into_iter().enumerate().map(|(number, mut container)| {
                if container["name"].is_null() {
                    container["name"] = format!("c{number}").into();
                }
                container
            });
            let mut seen = false;
            let containers = containers.filter(|container| {
                let proxy = container["name"] == "istio-proxy";
                !proxy || !std::mem::replace(&mut seen, true)
            });
            spec["containers"] = containers.collect();
            metadata["labels"] = labels;
            metadata["annotations"] = annotations;
            json!({"metadata": metadata, "spec": spec})
        },
    )
}

fn container() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => Just(json!({"image": "app:1"})),
        1 => Just(json!({"image": "r:5000/app@sha256:0123", "env": [{"name": "A", "value": "x"}]})),
        2 => Just(json!({"image": "app:1", "ports": [
            {"containerPort": 80, "name": "http"},
            {"containerPort": 53, "protocol": "UDP", "hostPort": 5353, "hostIP": "127.0.0.1"},
        ]})),
        1 => Just(json!({"image": "app:1", "ports": [{"containerPort": 81, "name": HOSTILE}]})),
        1 => Just(json!({"image": "app:1", "readinessProbe": {"httpGet": {"port": 80, "path": "/"}}})),
        1 => Just(json!({"image": "app:1", "ports": [{"containerPort": 82, "name": "web"}],
            "livenessProbe": {"httpGet": {"port": "web", "scheme": "HTTPS", "host": "h"}, "timeoutSeconds": 3},
            "readinessProbe": {"tcpSocket": {"port": "nowhere"}},
            "startupProbe": {"grpc": {"port": 82, "service": HOSTILE}},
            "lifecycle": {"preStop": {"tcpSocket": {"port": 82}},
                "postStart": {"httpGet": {"port": "web", "path": HOSTILE, "httpHeaders": [{"name": "H", "value": HOSTILE}]}}}})),
        1 => Just(json!({"image": "app:1", "readinessProbe": {"httpGet": {"port": 15020, "path": "/"}},
            "livenessProbe": {"httpGet": {"port": 15022}}})),
        1 => Just(json!({"name": "istio-proxy", "image": "auto"})),
        1 => Just(json!({"name": "istio-proxy", "image": "auto", "env": [
            {"name": "MINE", "value": "1"}, {"name": "TRUST_DOMAIN", "value": "mine"}]})),
        1 => Just(json!({"name": "istio-proxy", "image": "mine:1", "securityContext": {"runAsUser": 1500}})),
    ]
}

fn owner() -> impl Strategy<Value = Value> {
    let owned = |api: &str, kind: &str, name: &str| {
        Just(json!({"generateName": format!("{name}-"), "ownerReferences": [
            {"apiVersion": api, "kind": kind, "name": name, "controller": true, "uid": "u"}]}))
    };
    prop_oneof![
        Just(json!({"name": "cart"})),
        Just(json!({"generateName": "cart-"})),
        owned("apps/v1", "ReplicaSet", "cart-5d4"),
        owned("batch/v1", "Job", "backup-28113120"),
        owned("apps/v1", "StatefulSet", "cart"),
        owned("v1", "ReplicationController", "cart-1"),
        owned("foo.dev/v1beta1", "Custom", "cart"),
        Just(json!({"generateName": "c-", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]})),
        owned("", "Odd", "cart"),
        owned(HOSTILE, "Od: d", "cart"),
    ]
}

fn labels() -> impl Strategy<Value = Value> {
    some_of(LABELS).prop_map(object)
}

fn annotations() -> impl Strategy<Value = Value> {
    (some_of(ANNOTATIONS), prop::option::of(prop::sample::select(TEMPLATES))).prop_map(
        |(annotations, templates)| {
            let templates = templates.map(|names| ("inject.istio.io/templates", names));
            object(annotations.into_iter().chain(templates).collect())
        },
    )
}

pub(crate) type Entries = Vec<(&'static str, &'static str)>;

pub(crate) fn some_of(
    entries: &'static [(&'static str, &'static str)],
) -> impl Strategy<Value = Entries> {
    prop::collection::vec(prop::sample::select(entries), 0..5)
}

fn object(entries: Entries) -> Value {
    entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Text that would add fields if a template pasted it into a document unquoted.
pub(crate) const HOSTILE: &str = "a\"\n    - name: INJECTED\n      value: \"b' {c: [d]} # \\e";

/// Values of `inject.istio.io/templates`.
const TEMPLATES: &[&str] = &[
    "sidecar",
    "sidecar",
    "gateway",
    "grpc-agent",
    "grpc-simple",
    "grpc-simple,sidecar",
    "grpc-agent, grpc-simple",
];

/// Labels of a pod.
const LABELS: &[(&str, &str)] = &[
    ("app", "cart"),
    ("app.kubernetes.io/name", "kart"),
    ("app.kubernetes.io/version", "v1"),
    ("version", "v2"),
    ("pod-template-hash", "5d4"),
    ("security.istio.io/tlsMode", "disabled"),
    ("networking.istio.io/tunnel", "other"),
    ("service.istio.io/canonical-name", HOSTILE),
    ("service.istio.io/canonical-revision", HOSTILE),
    ("service.istio.io/workload-name", HOSTILE),
    ("topology.istio.io/network", "n2"),
    ("topology.istio.io/network", ""),
    ("app", ""),
    ("version", ""),
    ("security.istio.io/tlsMode", ""),
    ("service.istio.io/workload-name", ""),
    ("service.istio.io/canonical-name", ""),
    ("rollouts-pod-template-hash", "5d4"),
    ("deploymentconfig", "cart"),
];

/// Annotations of a pod, besides its templates.
const ANNOTATIONS: &[(&str, &str)] = &[
    ("sidecar.istio.io/nativeSidecar", "false"),
    ("sidecar.istio.io/nativeSidecar", "true"),
    ("sidecar.istio.io/interceptionMode", "TPROXY"),
    ("sidecar.istio.io/interceptionMode", "NONE"),
    ("sidecar.istio.io/capNetBindService", "true"),
    ("sidecar.istio.io/proxyImage", "mirror/proxy:1"),
    ("sidecar.istio.io/proxyImage", "'mirror/\"proxy:1"),
    ("sidecar.istio.io/proxyImageType", "distroless"),
    ("sidecar.istio.io/proxyImageType", ""),
    ("sidecar.istio.io/proxyImageType", "default"),
    ("sidecar.istio.io/proxyImageType", HOSTILE),
    ("sidecar.istio.io/proxyImage", "no-slash"),
    ("sidecar.istio.io/nativeSidecar", ""),
    ("sidecar.istio.io/nativeSidecar", "maybe"),
    ("sidecar.istio.io/capNetBindService", ""),
    ("sidecar.istio.io/capNetBindService", "false"),
    ("sidecar.istio.io/interceptionMode", "REDIRECT"),
    ("sidecar.istio.io/logLevel", "off"),
    ("sidecar.istio.io/componentLogLevel", ""),
    ("sidecar.istio.io/bootstrapOverride", "b"),
    ("sidecar.istio.io/userVolume", "{}"),
    ("sidecar.istio.io/userVolume", r#"{"istio-envoy":{"configMap":{"name":"c"}}}"#),
    ("sidecar.istio.io/userVolumeMount", "{}"),
    ("sidecar.istio.io/userVolumeMount", r#"{"data":{"mountPath":"/etc/istio/proxy"}}"#),
    ("sidecar.istio.io/rewriteAppHTTPProbers", "1"),
    ("sidecar.istio.io/rewriteAppHTTPProbers", "maybe"),
    ("sidecar.outrigger.io/initCPU", "1m"),
    ("status.sidecar.istio.io/port", "15022 "),
    ("status.sidecar.istio.io/port", "015022"),
    ("status.sidecar.istio.io/port", "00"),
    ("readiness.status.sidecar.istio.io/initialDelaySeconds", "0"),
    ("readiness.status.sidecar.istio.io/failureThreshold", "2147483647"),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", "*"),
    ("traffic.sidecar.istio.io/excludeOutboundIPRanges", ""),
    ("traffic.sidecar.istio.io/includeInboundPorts", ""),
    ("traffic.sidecar.istio.io/includeInboundPorts", "*"),
    ("traffic.sidecar.istio.io/excludeInboundPorts", ""),
    ("traffic.sidecar.istio.io/excludeInboundPorts", " 15020 , 9090"),
    ("traffic.sidecar.istio.io/includeOutboundPorts", ""),
    ("traffic.sidecar.istio.io/includeOutboundPorts", "80,,81,"),
    ("traffic.sidecar.istio.io/excludeOutboundPorts", "1, 2"),
    ("traffic.sidecar.istio.io/excludeInterfaces", ""),
    ("traffic.sidecar.istio.io/kubevirtInterfaces", ""),
    ("istio.io/reroute-virtual-interfaces", ""),
    ("prometheus.io/scrape", "true"),
    ("prometheus.io/scrape", "maybe"),
    ("prometheus.io/path", "/m?a=\"b\""),
    ("prometheus-io/port", "80"),
    ("prometheus.istio.io/scrape-targets", "8080:/a,9090"),
    ("prometheus.istio.io/secure-port", "1"),
    ("kubectl.kubernetes.io/default-logs-container", ""),
    ("k8s.v1.cni.cncf.io/networks", "[]"),
    ("k8s.v1.cni.cncf.io/networks", ""),
    ("resource.opentelemetry.io/service.instance.id", ""),
    ("apm.datadoghq.com/env", r#"{"true":"x","1":"y","~":"z"}"#),
    ("proxy.istio.io/config", ""),
    ("proxy.istio.io/config", "{holdApplicationUntilProxyStarts: false, interceptionMode: NONE}"),
    ("proxy.istio.io/config", "{proxyMetadata: {'true': x, '1': y, 'null': z, '0x1f': '1e3'}}"),
    (
        "proxy.istio.io/config",
        "{proxyMetadata: {POD_NAME: a, TRUST_DOMAIN: b, ISTIO_META_NETWORK: c, ISTIO_META_CLUSTER_ID: d}}",
    ),
    ("sidecar.istio.io/proxyCPU", "200m"),
    ("sidecar.istio.io/proxyMemory", "64Mi"),
    ("sidecar.istio.io/proxyCPULimit", "3"),
    ("sidecar.istio.io/proxyMemoryLimit", "1Gi"),
    ("sidecar.istio.io/logLevel", "trace"),
    ("sidecar.istio.io/componentLogLevel", "misc:debug"),
    ("sidecar.istio.io/agentLogLevel", "default:debug"),
    ("sidecar.istio.io/bootstrapOverride", HOSTILE),
    ("sidecar.istio.io/userVolume", r#"{"v":{"secret":{"secretName":"it's: \"s\"\n- x"}}}"#),
    (
        "sidecar.istio.io/userVolumeMount",
        r#"{"v":{"mountPath":"/v","readOnly":true},"w":{"mountPath":"/w"}}"#,
    ),
    ("sidecar.istio.io/rewriteAppHTTPProbers", "false"),
    ("status.sidecar.istio.io/port", "15022"),
    ("status.sidecar.istio.io/port", "0"),
    ("readiness.status.sidecar.istio.io/initialDelaySeconds", "5"),
    ("readiness.status.sidecar.istio.io/periodSeconds", "6"),
    ("readiness.status.sidecar.istio.io/failureThreshold", "7"),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", "10.0.0.0/8,fd00::/8"),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", ""),
    ("traffic.sidecar.istio.io/excludeOutboundIPRanges", "10.1.0.0/16"),
    ("traffic.sidecar.istio.io/includeInboundPorts", "80,81"),
    ("traffic.sidecar.istio.io/excludeInboundPorts", "9090, 9091"),
    ("traffic.sidecar.istio.io/includeOutboundPorts", "443"),
    ("traffic.sidecar.istio.io/excludeOutboundPorts", ""),
    ("traffic.sidecar.istio.io/excludeInterfaces", "eth1"),
    ("traffic.sidecar.istio.io/kubevirtInterfaces", "net1,net2"),
    ("istio.io/reroute-virtual-interfaces", "net3"),
    ("prometheus.io/port", "8080"),
    ("prometheus.istio.io/merge-metrics", "false"),
    ("kubectl.kubernetes.io/default-container", "c9"),
    ("k8s.v1.cni.cncf.io/networks", r#"[{"name": "it's"}]"#),
    ("k8s.v1.cni.cncf.io/networks", "a, b"),
    ("apm.datadoghq.com/env", r#"{"DD_ENV":"it's: \"prod\"","DD_B":"x"}"#),
    ("resource.opentelemetry.io/service.namespace", HOSTILE),
    ("resource.opentelemetry.io/service.version", "v3"),
    ("proxy.istio.io/config", "{holdApplicationUntilProxyStarts: true, concurrency: 3}"),
    ("proxy.istio.io/config", "{interceptionMode: TPROXY, image: {imageType: debug}}"),
    ("proxy.istio.io/config", "{proxyMetadata: {ISTIO_META_ENABLE_HBONE: 'true', B: ''}}"),
    ("proxy.istio.io/config", "{proxyMetadata: {IPTABLES_TRACE_LOGGING: 'true'}}"),
    (
        "proxy.istio.io/config",
        r##"{proxyMetadata: {A: "x\"\n- name: INJECTED\n  value: 'y", "it's: [k": "#v"}}"##,
    ),
    ("proxy.istio.io/config", "{tracing: {tlsSettings: {caCertificates: '/etc/it''s/ca.pem'}}}"),
];
