//! Injected pods, sent to the API server.

use injector::inject::{InjectionOutcome, Target, inject};
use injector::settings::{Document, Documents, Process, Settings};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

use crate::Kubernetes;

/// Checks that the API server accepts every pod with a sidecar that it accepts without one.
pub(crate) fn every_injected_pod_is_accepted(kubernetes: &Kubernetes) {
    let config = Config { failure_persistence: None, ..Config::default() };
    let counts = std::cell::Cell::new((0, 0));
    let situations = (pod(), some_of(VALUES, 3), some_of(MESH, 2), any::<bool>());
    let outcome = TestRunner::new(config).run(&situations, |(pod, values, mesh, native)| {
        let (offered, injected) = counts.get();
        counts.set((offered + 1, injected));
        // A webhook sees a pod with the API server's defaults.
        let pod = match kubernetes.post(PODS, &named(pod)) {
            Ok(pod) => unborn(pod),
            Err(refused) => {
                return Err(TestCaseError::fail(format!("the pod itself is refused: {refused}")));
            }
        };
        let settings = settings("policy: enabled", &values, &mesh, native);
        match inject(&settings, target(&pod)) {
            Ok(InjectionOutcome::Injected(injection)) => {
                let accepted = kubernetes.post(PODS, &injection.pod);
                prop_assert!(accepted.is_ok(), "{}", accepted.unwrap_err());
                // The injected pod, and the pod as restored from a backup.
                for pod in [injection.pod, unborn(accepted.unwrap())] {
                    let again = inject(&settings, target(&pod));
                    let Ok(InjectionOutcome::Injected(again)) = again else {
                        return Err(TestCaseError::fail("not injected again"));
                    };
                    prop_assert!(
                        again.patch().is_empty(),
                        "a second injection: {:?}",
                        again.patch()
                    );
                }
                counts.set((offered + 1, injected + 1));
            }
            Ok(InjectionOutcome::Skipped { .. }) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let (offered, injected) = counts.get();
    println!("{injected} of {offered} pods were injected, and accepted");
    assert!(injected > offered / 2, "{injected} of {offered} pods were injected");
}

pub(crate) fn settings(
    config: &str,
    values: &Value,
    mesh: &Value,
    native_sidecars: bool,
) -> Settings {
    let (values, mesh) = (values.to_string(), mesh.to_string());
    let document = |text| Some(Document { source: "the test", text });
    let documents = Documents {
        inject_config: document(config),
        values: document(&values),
        mesh_config: document(&mesh),
    };
    Settings::parse(&documents, Process { native_sidecars, ..Process::default() }).unwrap()
}

pub(crate) fn target(pod: &Value) -> Target<'static> {
    Target::at_admission(pod.clone(), "default")
}

/// Removes the fields that only a created pod has.
pub(crate) fn unborn(mut pod: Value) -> Value {
    let metadata = pod["metadata"].as_object_mut().unwrap();
    metadata
        .retain(|key, _| ["annotations", "finalizers", "labels", "name"].contains(&key.as_str()));
    pod.as_object_mut().unwrap().remove("status");
    pod
}

fn named(mut pod: Value) -> Value {
    pod["metadata"]["name"] = "pod".into();
    with_account(pod)
}

/// Names a service account. No controller creates accounts here, so the admission plugin that names
/// one is off.
pub(crate) fn with_account(mut pod: Value) -> Value {
    if pod["spec"]["serviceAccountName"].is_null() {
        pod["spec"]["serviceAccountName"] = "default".into();
    }
    pod
}

pub(crate) fn web(fields: &Value) -> Value {
    let mut web =
        json!({"name": "web", "image": "web:1", "ports": [{"name": "http", "containerPort": 80}]});
    web.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    web
}

fn pod() -> impl Strategy<Value = Value> {
    let containers = (probed("web"), prop::option::of(probed("side")));
    let own = prop::option::weighted(0.4, own_proxy());
    let init = prop::option::of(Just(json!({"name": "setup", "image": "setup:1"})));
    (containers, own, init, some_of(LABELS, 3), some_of(ANNOTATIONS, 5)).prop_map(
        |((first, second), own, init, labels, annotations)| {
            let mut containers: Vec<_> = [first].into_iter().chain(second).collect();
            let mut init: Vec<_> = init.into_iter().collect();
            match own {
                Some(proxy) if proxy["restartPolicy"] == "Always" => init.push(proxy),
                other => containers.extend(other),
            }
            json!({
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {"containers": containers, "initContainers": init},
            })
        },
    )
}

fn probed(name: &'static str) -> impl Strategy<Value = Value> {
    let handlers = prop::sample::select(vec![
        json!(null),
        json!({"httpGet": {"port": "http", "path": "/", "scheme": "HTTPS"}, "timeoutSeconds": 2}),
        json!({"httpGet": {"port": 80, "httpHeaders": [{"name": "A", "value": "b"}]}}),
        json!({"tcpSocket": {"port": 81}}),
        json!({"grpc": {"port": 82, "service": "s"}}),
        json!({"exec": {"command": ["true"]}}),
    ]);
    let hooks = prop::sample::select(vec![
        json!({}),
        json!({"preStop": {"httpGet": {"port": "http"}}, "postStart": {"exec": {"command": ["true"]}}}),
        json!({"preStop": {"sleep": {"seconds": 1}}}),
    ]);
    (handlers.clone(), handlers.clone(), handlers, hooks).prop_map(
        move |(readiness, liveness, startup, lifecycle)| {
            let mut container = web(&json!({
                "readinessProbe": readiness, "livenessProbe": liveness, "startupProbe": startup,
                "lifecycle": lifecycle,
            }));
            container["name"] = name.into();
            container
        },
    )
}

fn own_proxy() -> impl Strategy<Value = Value> {
    let fields = &[
        ("args", r#"["proxy", "mine"]"#),
        ("env", r#"[{"name": "POD_NAME", "value": "mine"}, {"name": "MINE", "value": "1"}]"#),
        ("lifecycle", r#"{"preStop": {"sleep": {"seconds": 1}}}"#),
        ("ports", r#"[{"name": "http", "containerPort": 8080}]"#),
        ("readinessProbe", r#"{"tcpSocket": {"port": 15021}}"#),
        ("resources", r#"{"requests": {"cpu": "10m"}}"#),
        ("restartPolicy", r#""Always""#),
        ("securityContext", r#"{"runAsUser": 1338, "readOnlyRootFilesystem": false}"#),
        ("startupProbe", r#"{"exec": {"command": ["true"]}}"#),
    ];
    let fields: &'static [(&str, &str)] = Box::leak(fields.to_vec().into_boxed_slice());
    prop::collection::vec(prop::sample::select(fields), 0..4).prop_map(|fields| {
        let mut proxy = json!({"name": "istio-proxy", "image": "auto"});
        for (field, value) in fields {
            proxy[field] = serde_json::from_str(value).unwrap();
        }
        proxy
    })
}

/// Generates an object with some of the entries. A key that begins with a dot is a path into nested
/// objects, and its value is JSON. Any other value is a string.
fn some_of(
    entries: &'static [(&'static str, &'static str)],
    most: usize,
) -> impl Strategy<Value = Value> {
    prop::collection::vec(prop::sample::select(entries), 0..=most).prop_map(|chosen| {
        let mut object = Value::Object(Map::new());
        for (key, value) in chosen {
            match key.strip_prefix('.') {
                Some(path) => {
                    let place = path.split('.').fold(&mut object, |object, key| &mut object[key]);
                    *place = serde_json::from_str(value).unwrap();
                }
                None => object[key] = value.into(),
            }
        }
        object
    })
}

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods?dryRun=All";

const LABELS: &[(&str, &str)] = &[
    ("app", "web"),
    ("version", "v1"),
    ("service.istio.io/canonical-name", "web"),
    ("topology.istio.io/network", "n1"),
];

const ANNOTATIONS: &[(&str, &str)] = &[
    ("inject.istio.io/templates", "gateway"),
    ("inject.istio.io/templates", "grpc-agent"),
    ("inject.istio.io/templates", "grpc-simple"),
    ("inject.istio.io/templates", "grpc-simple,sidecar"),
    ("sidecar.istio.io/nativeSidecar", "false"),
    ("sidecar.istio.io/nativeSidecar", "true"),
    ("sidecar.istio.io/interceptionMode", "TPROXY"),
    ("sidecar.istio.io/interceptionMode", "NONE"),
    ("sidecar.istio.io/capNetBindService", "true"),
    ("sidecar.istio.io/bootstrapOverride", "bootstrap"),
    ("sidecar.istio.io/proxyCPU", "100m"),
    ("sidecar.istio.io/proxyMemoryLimit", "1Gi"),
    ("sidecar.outrigger.io/initCPU", "5m"),
    ("sidecar.outrigger.io/initMemoryLimit", "64Mi"),
    ("status.sidecar.istio.io/port", "0"),
    ("status.sidecar.istio.io/port", "15022"),
    ("traffic.sidecar.istio.io/includeInboundPorts", ""),
    ("traffic.sidecar.istio.io/excludeInboundPorts", "80, 81"),
    ("traffic.sidecar.istio.io/includeOutboundPorts", "80,,81"),
    ("proxy.istio.io/config", "{holdApplicationUntilProxyStarts: true, concurrency: 3}"),
    ("proxy.istio.io/config", "{proxyMetadata: {A: b}}"),
    ("prometheus.io/port", "80"),
    ("k8s.v1.cni.cncf.io/networks", "a"),
];

const VALUES: &[(&str, &str)] = &[
    (".global.imagePullPolicy", "\"Always\""),
    (".global.imagePullSecrets", "[\"s\"]"),
    (".global.mountMtlsCerts", "true"),
    (".global.network", "\"n1\""),
    (".global.proxy.resources", "{\"limits\": {\"cpu\": null}}"),
    (".global.proxy.startupProbe", "{\"enabled\": false}"),
    (".global.proxy.statusPort", "0"),
    (".global.proxy.tracer", "\"lightstep\""),
    (".global.caName", "\"GkeWorkloadCertificate\""),
    (".global.proxy.seccompProfile", "{\"type\": \"RuntimeDefault\"}"),
    (".outrigger.cpuLimits", "\"omit\""),
    (".outrigger.initResources", "{\"requests\": {\"cpu\": \"1m\"}}"),
    (".outrigger.podResources", "\"omit\""),
    (".pilot.cni", "{\"enabled\": true, \"provider\": \"multus\"}"),
];

const MESH: &[(&str, &str)] = &[
    (".defaultConfig.holdApplicationUntilProxyStarts", "true"),
    (".defaultConfig.interceptionMode", "\"TPROXY\""),
    (".defaultConfig.statusPort", "15023"),
    (".enablePrometheusMerge", "false"),
    (".defaultConfig.tracing", "{\"tlsSettings\": {}}"),
];
