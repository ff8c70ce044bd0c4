//! Invalid and valid values of annotations.

use injector::inject::InjectionOutcome;
use injector::inject::policy::Rules;
use injector::settings::annotations::HONOURED;
use serde_json::{Map, Value, json};

use crate::fixture::{Fixture, pod};

#[test]
fn invalid_annotations_are_rejected_by_key_and_value() {
    for (key, value) in BAD {
        let error = Fixture::default().injection(&pod(&json!({*key: value}))).unwrap_err();
        assert_eq!(error.word(), "bad_annotation", "{key}");
        let message = error.to_string();
        assert!(message.contains(key) && message.contains(&format!("{value:?}")), "{message}");
    }
}

#[test]
fn all_invalid_values_of_a_pod_are_reported_together() {
    let bad: Map<String, Value> =
        BAD.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    let message = Fixture::default().injection(&pod(&bad.clone().into())).unwrap_err().to_string();
    for (key, value) in bad {
        assert!(message.contains(&format!("{key}: {:?}", value.as_str().unwrap())), "{message}");
    }
}

/// Istio's documented form works in a configuration's template as in the built-in one.
#[test]
fn volumes_and_mounts_are_lists_or_objects_in_any_case() {
    let forms = [
        (
            r#"[{"name":"certs","secret":{"secretname":"c"}}]"#,
            r#"[{"name":"certs","mountPath":"/etc/certs","readonly":true}]"#,
        ),
        (
            r#"{"certs":{"Secret":{"secretName":"c"}}}"#,
            r#"{"certs":{"mountpath":"/etc/certs","READONLY":true}}"#,
        ),
        (
            r#"[{"name":"certs","secret":{"secretName":"c"}}]"#,
            r#"[{"name":"certs","mountPath":"/etc/certs","readOnly":true}]"#,
        ),
    ];
    let own = "spec:\n  containers:\n  - name: istio-proxy\n    image: p\n    volumeMounts:\n\
        {{- range $index, $value := fromJSON (index .ObjectMeta.Annotations `sidecar.istio.io/userVolumeMount`) }}\n\
        \u{20}   - name: \"{{ $index }}\"\n      {{ toYaml $value | indent 6 }}{{ end }}\n  volumes:\n\
        {{- range $index, $value := fromJSON (index .ObjectMeta.Annotations `sidecar.istio.io/userVolume`) }}\n\
        \u{20} - name: \"{{ $index }}\"\n    {{ toYaml $value | indent 4 }}{{ end }}\n";
    let own = json!({"policy": "enabled", "templates": {"sidecar": own}}).to_string();
    for config in ["policy: enabled", &own] {
        for (volumes, mounts) in forms {
            let annotations = json!({
                "sidecar.istio.io/userVolume": volumes, "sidecar.istio.io/userVolumeMount": mounts,
            });
            let ran =
                Fixture::default().run(config, &json!({}), &pod(&annotations), Rules::Admission);
            let Ok(InjectionOutcome::Injected(injection)) = ran else { panic!("{ran:?}") };
            let spec = &injection.pod["spec"];
            let has = |list: &Value, item: Value| list.as_array().unwrap().contains(&item);
            let volume = json!({"name": "certs", "secret": {"secretName": "c"}});
            assert!(has(&spec["volumes"], volume), "{spec:#}");
            let lists = ["containers", "initContainers"].map(|list| spec[list].as_array());
            let mut containers = lists.into_iter().flatten().flatten();
            let proxy = containers.find(|container| container["name"] == "istio-proxy").unwrap();
            let mount = json!({"name": "certs", "mountPath": "/etc/certs", "readOnly": true});
            assert!(has(&proxy["volumeMounts"], mount), "{proxy:#}");
        }
    }
}

#[test]
fn list_items_keep_their_order_and_may_share_a_volume() {
    let mounts = r#"[{"name":"b","mountPath":"/z"},{"name":"a","mountPath":"/y","subpath":"s"},
        {"name":"b","mountPath":"/x"}]"#;
    let volumes = r#"[{"name":"b","emptyDir":{}},{"name":"a","configMap":{"name":"c"}}]"#;
    let injected = Fixture::default().pod(&pod(&json!({
        "sidecar.istio.io/userVolume": volumes, "sidecar.istio.io/userVolumeMount": mounts,
    })));
    let lists = ["containers", "initContainers"].map(|list| injected["spec"][list].as_array());
    let mut containers = lists.into_iter().flatten().flatten();
    let proxy = containers.find(|container| container["name"] == "istio-proxy").unwrap();
    let mounts = proxy["volumeMounts"].as_array().unwrap();
    let expected = [
        json!({"name": "b", "mountPath": "/z"}),
        json!({"name": "a", "mountPath": "/y", "subPath": "s"}),
        json!({"name": "b", "mountPath": "/x"}),
    ];
    assert_eq!(mounts[mounts.len() - 3..], expected);
    let volumes = injected["spec"]["volumes"].as_array().unwrap();
    let names = volumes.iter().map(|volume| volume["name"].as_str().unwrap());
    let own: Vec<_> = names.filter(|name| ["a", "b"].contains(name)).collect();
    assert_eq!(own, ["b", "a"]);
}

#[test]
fn status_and_overrides_match_in_any_letter_case() {
    let (status, overrides) = ("sidecar.istio.io/status", "proxy.istio.io/overrides");
    let own = json!({"name": "istio-proxy", "image": "auto", "args": ["proxy", "mine"],
        "volumeMounts": [{"name": "a", "mountPath": "/a", "readOnly": true}]});
    let mut with_own = pod(&json!({}));
    with_own["spec"]["containers"].as_array_mut().unwrap().push(own);
    for (pod, recorded) in [(with_own, true), (pod(&json!({})), false)] {
        let first = Fixture::default().pod(&pod);
        let mut respelled = first.clone();
        for key in [status, overrides] {
            let annotation = &mut respelled["metadata"]["annotations"][key];
            let Some(text) = annotation.as_str().map(str::to_owned) else { continue };
            let names = ["initContainers", "containers", "name", "args", "mountPath", "readOnly"];
            let given = names.iter().fold(text, |text, name| {
                text.replace(&format!("{name:?}:"), &format!("{:?}:", name.to_uppercase()))
            });
            *annotation = given.into();
        }
        if !recorded {
            respelled["metadata"]["annotations"].as_object_mut().unwrap().remove(overrides);
        }
        let second = Fixture::default().injection(&respelled).unwrap().pod;
        assert_eq!(second["spec"], first["spec"]);
        let annotations = second["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(annotations.contains_key(overrides), recorded);
    }
}

/// The message names the annotation, the field and the reason.
#[test]
fn each_invalid_proxy_config_field_is_named() {
    let config = json!({"proxy.istio.io/config": "statusPort: 0\ntracing: {zipkin: {}}\n"});
    for rules in [Rules::Admission, Rules::Manual] {
        let error = Fixture::default().run("policy: enabled", &json!({}), &pod(&config), rules);
        let error = error.unwrap_err().to_string();
        let expected = "annotation proxy.istio.io/config: \"statusPort: 0\\ntracing: {zipkin: {}}\\n\" is not a \
            ProxyConfig as YAML or JSON: statusPort: 0 is not a port from 1 to 65535; \
            tracing.zipkin.address: \"\" is not host:port (";
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn valid_annotations_are_accepted() {
    for (key, value) in GOOD {
        let injected = Fixture::default().pod(&pod(&json!({*key: value})));
        assert!(injected["metadata"]["annotations"]["sidecar.istio.io/status"].is_string());
    }
    for key in GOOD.iter().map(|(key, _)| key) {
        assert!(HONOURED.iter().any(|honoured| honoured.key == *key), "{key} is not in the table");
    }
}

const BAD: &[(&str, &str)] = &[
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", "bad"),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", "*,10.0.0.0/8"),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", "10.0.0.1"),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", "1.1.1.256/8"),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", "1.1.1.1/33"),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", "10.0.0.0/8, 10.1.0.0/16"),
    ("traffic.sidecar.istio.io/excludeOutboundIPRanges", "bad"),
    ("traffic.sidecar.istio.io/excludeOutboundIPRanges", "*"),
    ("traffic.sidecar.istio.io/excludeOutboundIPRanges", "2001:db8::1/129"),
    ("traffic.sidecar.istio.io/includeInboundPorts", "bad"),
    ("traffic.sidecar.istio.io/includeInboundPorts", "-1"),
    ("traffic.sidecar.istio.io/includeInboundPorts", "65536"),
    ("traffic.sidecar.istio.io/includeInboundPorts", "80,*"),
    ("traffic.sidecar.istio.io/excludeInboundPorts", "bad"),
    ("traffic.sidecar.istio.io/excludeInboundPorts", "*"),
    ("traffic.sidecar.istio.io/excludeInboundPorts", "80,a"),
    ("traffic.sidecar.istio.io/includeOutboundPorts", "bad"),
    ("traffic.sidecar.istio.io/excludeOutboundPorts", "bad"),
    ("traffic.sidecar.istio.io/excludeOutboundPorts", "*"),
    ("traffic.sidecar.istio.io/excludeInterfaces", "eth0;rm"),
    ("traffic.sidecar.istio.io/kubevirtInterfaces", "a-name-of-16-chr"),
    ("istio.io/reroute-virtual-interfaces", "0net"),
    ("sidecar.istio.io/interceptionMode", "BAD"),
    ("sidecar.istio.io/interceptionMode", "tproxy"),
    ("status.sidecar.istio.io/port", "bad"),
    ("status.sidecar.istio.io/port", "65536"),
    ("status.sidecar.istio.io/port", "-1"),
    ("readiness.status.sidecar.istio.io/initialDelaySeconds", "bad"),
    ("readiness.status.sidecar.istio.io/initialDelaySeconds", "-1"),
    ("readiness.status.sidecar.istio.io/periodSeconds", "1s"),
    ("readiness.status.sidecar.istio.io/initialDelaySeconds", "010"),
    ("readiness.status.sidecar.istio.io/failureThreshold", "4294967296"),
    ("sidecar.istio.io/proxyCPU", "bad"),
    ("sidecar.istio.io/proxyCPU", "1\n2"),
    ("sidecar.istio.io/proxyMemory", "1GiB"),
    ("sidecar.istio.io/proxyCPULimit", ""),
    ("sidecar.istio.io/proxyMemoryLimit", "a"),
    ("sidecar.istio.io/userVolume", "[{}]"),
    ("sidecar.istio.io/userVolume", r#"{"v":{}}"#),
    ("sidecar.istio.io/userVolume", r#"[{"name":"v"}]"#),
    ("sidecar.istio.io/userVolume", r#"[{"name":"v","comfigMap":{"name":"v"}}]"#),
    ("sidecar.istio.io/userVolumeMount", r#"{"v":{"readOnly":true}}"#),
    ("sidecar.istio.io/userVolumeMount", r#"{"v":{"mountPath":"/v","readOny":true}}"#),
    ("sidecar.istio.io/bootstrapOverride", ""),
    ("sidecar.istio.io/proxyImage", "x y"),
    ("sidecar.istio.io/proxyImage", "hub/Proxy:1"),
    ("sidecar.istio.io/logLevel", "verbose"),
    ("sidecar.istio.io/componentLogLevel", "misc"),
    ("sidecar.istio.io/agentLogLevel", "warning"),
    ("sidecar.istio.io/statsHistogramBuckets", "[1, 10]"),
    ("sidecar.istio.io/proxyCPU", "1e1000"),
    ("prometheus.istio.io/scrape-targets", "8080:/a,15090:/b"),
    ("sidecar.istio.io/userVolumeMount", "{"),
    ("proxy.istio.io/overrides", "{"),
    ("proxy.istio.io/config", "drainDuration: 1.5s"),
    ("proxy.istio.io/config", "drainDuration: 0s"),
    ("proxy.istio.io/config", "terminationDrainDuration: 65"),
    ("proxy.istio.io/config", "terminationDrainDuration: 1d"),
    ("proxy.istio.io/config", "drainDuration: 500ms"),
    ("proxy.istio.io/config", "discoveryAddress: nowhere"),
    ("proxy.istio.io/config", "proxyAdminPort: 70000"),
    ("proxy.istio.io/config", "statusPort: -1"),
    ("proxy.istio.io/config", "tracing: {zipkin: {address: zipkin}}"),
    ("proxy.istio.io/config", "statsdUdpAddress: 'host:port'"),
    ("proxy.istio.io/config", "interceptionMode: SIDEWAYS"),
    ("proxy.istio.io/config", "discoveryAddress: ''"),
    ("proxy.istio.io/config", "serviceCluster: ''"),
    ("proxy.istio.io/config", "statusPort: 0"),
    ("proxy.istio.io/config", "proxyAdminPort: 0"),
    ("proxy.istio.io/config", "configPath: ''"),
    ("proxy.istio.io/config", "binaryPath: ''"),
    ("proxy.istio.io/config", "controlPlaneAuthPolicy: INHERIT"),
    ("proxy.istio.io/config", "tracing: {zipkin: {}}"),
    ("proxy.istio.io/config", "tracing: {tlsSettings: {mode: MUTUAL}}"),
    ("proxy.istio.io/config", "privateKeyProvider: {cryptomb: {}}"),
];

const GOOD: &[(&str, &str)] = &[
    ("traffic.sidecar.istio.io/includeOutboundPorts", "80,8000:8010,9000-9010"),
    ("apm.datadoghq.com/env", "not read without the tracer"),
    ("prometheus.io/port", ""),
    ("sidecar.istio.io/userVolume", "null"),
    ("sidecar.istio.io/userVolumeMount", "null"),
    ("sidecar.istio.io/userVolume", "[]"),
    ("sidecar.istio.io/userVolume", r#"{"v":{"name":"w","emptyDir":{}}}"#),
    ("sidecar.istio.io/proxyImage", "no-slash"),
    ("sidecar.istio.io/logLevel", "debug"),
    ("sidecar.istio.io/componentLogLevel", "misc:error,http:debug"),
    ("sidecar.istio.io/agentLogLevel", "default:info,xdsproxy:debug"),
    ("sidecar.istio.io/statsHistogramBuckets", r#"{"cluster.xds-grpc": [1, 10]}"#),
    ("sidecar.istio.io/statsInclusionPrefixes", "cluster,listener"),
    ("sidecar.istio.io/proxyCPU", "."),
    ("sidecar.istio.io/proxyMemory", "Mi"),
    ("proxy.istio.io/overrides", "null"),
    ("proxy.istio.io/overrides", r#"{"containers":null}"#),
    ("proxy.istio.io/config", "concurrency: 2\nconcurrency: 3"),
    ("proxy.istio.io/config", "concurrency: 2\n---\nconcurrency: 3"),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", "*"),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", ""),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", "127.0.0.1/24,10.96.0.1/24"),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", "2001:db8::/32"),
    ("traffic.sidecar.istio.io/excludeOutboundIPRanges", ""),
    ("traffic.sidecar.istio.io/excludeOutboundIPRanges", "10.96.0.2/24,10.96.0.3/24"),
    ("traffic.sidecar.istio.io/includeInboundPorts", "*"),
    ("traffic.sidecar.istio.io/includeInboundPorts", ""),
    ("traffic.sidecar.istio.io/includeInboundPorts", " 1, 2 ,3 "),
    ("traffic.sidecar.istio.io/excludeInboundPorts", ""),
    ("traffic.sidecar.istio.io/excludeInboundPorts", "4,5,6"),
    ("traffic.sidecar.istio.io/includeOutboundPorts", "7,8,9"),
    ("traffic.sidecar.istio.io/includeOutboundPorts", ""),
    ("traffic.sidecar.istio.io/excludeOutboundPorts", "7,8,9"),
    ("traffic.sidecar.istio.io/excludeOutboundPorts", ""),
    ("traffic.sidecar.istio.io/excludeInterfaces", "eth0, net1.5"),
    ("traffic.sidecar.istio.io/kubevirtInterfaces", "net1,net2"),
    ("istio.io/reroute-virtual-interfaces", "net1"),
    ("sidecar.istio.io/interceptionMode", "REDIRECT"),
    ("sidecar.istio.io/interceptionMode", "TPROXY"),
    ("sidecar.istio.io/interceptionMode", "NONE"),
    ("sidecar.istio.io/inject", "yes"),
    ("sidecar.istio.io/nativeSidecar", "false"),
    ("sidecar.istio.io/capNetBindService", "true"),
    ("sidecar.istio.io/capNetBindService", "false"),
    ("sidecar.istio.io/proxyCPU", "100m"),
    ("sidecar.istio.io/proxyMemory", "1Gi"),
    ("sidecar.istio.io/proxyCPULimit", "2"),
    ("sidecar.istio.io/proxyMemoryLimit", "1e9"),
    ("sidecar.istio.io/rewriteAppHTTPProbers", "maybe"),
    ("status.sidecar.istio.io/port", "0"),
    ("status.sidecar.istio.io/port", "123"),
    ("readiness.status.sidecar.istio.io/initialDelaySeconds", "100"),
    ("readiness.status.sidecar.istio.io/periodSeconds", "200"),
    ("readiness.status.sidecar.istio.io/failureThreshold", "300"),
    ("prometheus.istio.io/merge-metrics", "True"),
    ("sidecar.istio.io/userVolume", r#"{"v":{"emptyDir":{}}}"#),
    ("sidecar.istio.io/bootstrapOverride", "bootstrap"),
    ("prometheus.io/port", "8080"),
    ("prometheus.istio.io/scrape-targets", "8080:/a,9090"),
    ("proxy.istio.io/config", ""),
    ("proxy.istio.io/config", "{}"),
    ("proxy.istio.io/config", r#"{"holdApplicationUntilProxyStarts": false}"#),
    ("proxy.istio.io/config", "concurrency: 0\nproxyMetadata:\n  A: b"),
    ("proxy.istio.io/config", "tracing:\n  zipkin:\n    address: zipkin.istio-system:9411"),
    ("proxy.istio.io/config", "tracing: {datadog: {address: '$(HOST_IP):8126'}}"),
    ("proxy.istio.io/config", "discoveryAddress: '[::1]:15012'"),
    ("proxy.istio.io/config", "drainDuration: 23s\nterminationDrainDuration: 65s"),
    ("proxy.istio.io/config", "drainDuration: 1m\nterminationDrainDuration: 1m5s"),
];
