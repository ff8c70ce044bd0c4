//! Invariants of every pod: the patch yields the injected pod, reinjection changes nothing, and
//! injection does not change unknown fields.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::sync::LazyLock;

use injector::inject::{Injection, InjectionOutcome, Target, inject};
use injector::settings::{Document, Documents, Process, Settings};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn patch_produces_the_injected_pod(pod in pods(), native in any::<bool>()) {
        let Some(injection) = injected(&pod, native) else { return Ok(()) };
        let mut patched = pod.clone();
        json_patch::patch(&mut patched, &injection.patch().owned()).unwrap();
        prop_assert_eq!(patched, injection.pod);
    }

    #[test]
    fn reinjection_changes_nothing(pod in pods(), native in any::<bool>()) {
        let Some(first) = injected(&pod, native) else { return Ok(()) };
        let second = injected(&first.pod, native).expect("an injected pod is injected again");
        prop_assert!(second.patch().is_empty(), "{}", serde_json::to_string(&second.patch()).unwrap());
    }

    #[test]
    fn pod_of_another_revision_is_converted(
        // If the proxy changes between native sidecar and container, Istio treats the previous
        // proxy as user-supplied.
        pod in pods(), native in any::<bool>(),
    ) {
        let Some(old) = by_another_revision(&pod, native) else { return Ok(()) };
        let second = injected(&old.pod, native).expect("an injected pod is injected again").pod;
        let first = injected(&pod, native).expect("both revisions inject alike").pod;
        let names = |pod: &Value| -> Vec<Vec<Value>> {
            let lists = ["containers", "initContainers"].map(|list| pod["spec"][list].as_array());
            let names = |list: Option<&Vec<Value>>| list.into_iter().flatten().map(|c| c["name"].clone()).collect();
            lists.into_iter().map(names).collect()
        };
        prop_assert_eq!(names(&second), names(&first));
        for wanted in by_name(&first) {
            let has = by_name(&second).into_iter().find(|c| c["name"] == wanted["name"]).unwrap();
            for field in ["image", "args", "ports", "readinessProbe", "lifecycle", "securityContext"] {
                prop_assert_eq!(&has[field], &wanted[field], "{} of {}", field, wanted["name"]);
            }
            for variable in wanted["env"].as_array().into_iter().flatten() {
                let env = has["env"].as_array().unwrap();
                prop_assert!(env.contains(variable), "{} in {:?}", variable, env);
            }
        }
        // The record of user-supplied fields stays as the first injection wrote it.
        let metadata = |pod: &Value| {
            let mut metadata = pod["metadata"].clone();
            metadata["annotations"]["proxy.istio.io/overrides"] = Value::Null;
            metadata
        };
        prop_assert_eq!(metadata(&second), metadata(&first));
        let third = injected(&second, native).unwrap();
        prop_assert!(third.patch().is_empty(), "{}", serde_json::to_string(&third.patch()).unwrap());
    }

    #[test]
    fn user_fields_are_not_changed(pod in pods(), native in any::<bool>()) {
        let Some(injection) = injected(&pod, native) else { return Ok(()) };
        prop_assert_eq!(&injection.pod["spec"]["future"], &pod["spec"]["future"]);
        for (list, key) in [("containers", "name"), ("initContainers", "name"), ("volumes", "name")] {
            let names = |pod: &Value| -> Vec<Value> {
                let items = pod["spec"][list].as_array().into_iter().flatten();
                items.map(|item| item[key].clone()).collect()
            };
            let kept: Vec<_> =
                names(&injection.pod).into_iter().filter(|name| names(&pod).contains(name)).collect();
            let names = names(&pod).into_iter().filter(|name| name != "istio-proxy");
            let kept = kept.into_iter().filter(|name| name != "istio-proxy");
            prop_assert!(kept.eq(names), "the user's {} keep their order", list);
        }
        for (before, container) in by_name(&pod).into_iter().map(|c| (c, c["name"].clone())) {
            let after = by_name(&injection.pod).into_iter().find(|c| c["name"] == container).unwrap();
            if container == "istio-proxy" {
                prop_assert_eq!(&after["future"], &before["future"]);
                continue;
            }
            for field in ["image", "env", "future", "args"] {
                prop_assert_eq!(&after[field], &before[field]);
            }
        }
    }

    #[test]
    fn injected_pod_has_one_proxy(pod in pods(), native in any::<bool>()) {
        let Some(injection) = injected(&pod, native) else { return Ok(()) };
        let proxies = by_name(&injection.pod).into_iter().filter(|c| c["name"] == "istio-proxy");
        prop_assert_eq!(proxies.count(), 1);
    }

    #[test]
    fn same_pod_gives_the_same_bytes(pod in pods()) {
        let bytes = || injected(&pod, true).map(|injection| serde_json::to_vec(&injection.patch()).unwrap());
        prop_assert_eq!(bytes(), bytes());
    }

    #[test]
    fn pod_of_any_form_causes_no_panic(pod in anything()) {
        let _ = inject(settings(true), target(&pod));
    }
}

/// A null in a user-supplied proxy removes nothing from the injected one.
#[test]
fn null_in_a_user_supplied_proxy_has_no_effect() {
    let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "app"},
        {"name": "istio-proxy", "image": "auto", "env": null, "args": null}]}});
    let injection = injected(&pod, true).unwrap();
    let proxy = by_name(&injection.pod).into_iter().find(|c| c["name"] == "istio-proxy").unwrap();
    assert_eq!(proxy["args"][0], "proxy");
    assert!(proxy["env"].as_array().is_some_and(|env| env.len() > 10));
}

/// Injection moves a user-supplied proxy, but its ports keep their place among the others.
#[test]
fn ports_of_a_proxy_between_containers_keep_their_position() {
    let port = |name: &str, port: u16| json!({"name": name, "image": "x", "ports": [{"containerPort": port}]});
    let plain = [port("a", 1), port("istio-proxy", 2), port("b", 3)];
    for lists in [
        json!({"containers": plain}),
        json!({"containers": [plain[0], plain[2]], "initContainers": [plain[1]]}),
    ] {
        for native in [false, true] {
            let first = injected(&json!({"metadata": {}, "spec": lists}), native).unwrap();
            let second = injected(&first.pod, native).unwrap();
            assert!(second.patch().is_empty(), "{native}: {lists}: {:?}", second.patch());
        }
    }
}

/// Containers that another template left in the pod are not user-supplied, although Istio treats
/// them so.
#[test]
fn containers_of_other_templates_stay_stable() {
    let app = json!({"name": "app", "image": "x", "ports": [{"containerPort": 80}],
        "readinessProbe": {"httpGet": {"port": 80}}});
    let pod = json!({"metadata": {"annotations": {}}, "spec": {"containers": [app]}});
    let all = ["sidecar", "gateway", "grpc-agent", "grpc-simple", "sidecar,grpc-simple"];
    let with = |mut pod: Value, templates: &str, native| {
        pod["metadata"]["annotations"]["inject.istio.io/templates"] = templates.into();
        injected(&pod, native).unwrap()
    };
    for (first, second, native) in all
        .into_iter()
        .flat_map(|first| all.map(|second| (first, second)))
        .flat_map(|(first, second)| [false, true].map(|native| (first, second, native)))
    {
        let twice = with(with(pod.clone(), first, native).pod, second, native).pod;
        let again = injected(&twice, native).unwrap();
        assert!(again.patch().is_empty(), "{first}, {second}, {native}: {:?}", again.patch());
        assert_eq!(by_name(&again.pod)[0]["image"], "x");
        for third in ["sidecar", "grpc-simple", "grpc-agent"] {
            let thrice = with(twice.clone(), third, native).pod;
            let again = injected(&thrice, native).unwrap().pod;
            assert_eq!(again, thrice, "{first}, {second}, {third}, {native}");
        }
    }
}

/// The patch of a large pod does not repeat the parts that injection leaves unchanged.
#[test]
fn long_environment_is_not_repeated_in_the_patch() {
    let env: Vec<_> =
        (0..5000).map(|n| json!({"name": format!("V{n}"), "value": "x".repeat(20)})).collect();
    let pod = json!({"metadata": {}, "spec": {"containers": [
        {"name": "app", "env": env, "readinessProbe": {"httpGet": {"port": 80}}}]}});
    let injection = injected(&pod, false).unwrap();
    assert!(serde_json::to_vec(&injection.patch()).unwrap().len() < 8000);
}

fn injected(pod: &Value, native: bool) -> Option<Injection> {
    match inject(settings(native), target(pod)).unwrap() {
        InjectionOutcome::Injected(injection) => Some(*injection),
        InjectionOutcome::Skipped { .. } => None,
    }
}

/// Returns the injection of another revision, with other images, trust domain and environment.
fn by_another_revision(pod: &Value, native_sidecars: bool) -> Option<Injection> {
    static SETTINGS: LazyLock<[Settings; 2]> = LazyLock::new(|| {
        let document = |text| Some(Document { source: "the other revision's", text });
        let values =
            "{revision: old, global: {hub: example.com/old, tag: 1.1.1, proxy: {logLevel: debug}}}";
        let mesh = "{trustDomain: old.example, defaultConfig: {proxyMetadata: {OLD: '1'}, concurrency: 7}}";
        let documents = Documents {
            inject_config: None,
            values: document(values),
            mesh_config: document(mesh),
        };
        [false, true].map(|native_sidecars| {
            let process =
                Process { native_sidecars, revision: "old".to_owned(), ..Process::default() };
            Settings::parse(&documents, process).unwrap()
        })
    });
    match inject(&SETTINGS[usize::from(native_sidecars)], target(pod)).unwrap() {
        InjectionOutcome::Injected(injection) => Some(*injection),
        InjectionOutcome::Skipped { .. } => None,
    }
}

fn target(pod: &Value) -> Target<'static> {
    Target::at_admission(pod.clone(), "default")
}

fn settings(native_sidecars: bool) -> &'static Settings {
    static SETTINGS: LazyLock<[Settings; 2]> = LazyLock::new(|| {
        [false, true].map(|native_sidecars| {
            let process = Process { native_sidecars, ..Process::default() };
            Settings::parse(&Documents::default(), process).unwrap()
        })
    });
    &SETTINGS[usize::from(native_sidecars)]
}

fn by_name(pod: &Value) -> Vec<&Value> {
    let lists = ["containers", "initContainers"].map(|list| pod["spec"][list].as_array());
    lists.into_iter().flatten().flatten().collect()
}

fn pods() -> impl Strategy<Value = Value> {
    let metadata = (entries(), entries(), any::<bool>(), any::<bool>()).prop_map(
        |(labels, annotations, has_labels, has_annotations)| {
            let mut metadata = json!({"generateName": "web-"});
            if has_labels {
                metadata["labels"] = labels;
            }
            if has_annotations {
                metadata["annotations"] = annotations;
            }
            metadata
        },
    );
    let names = prop::sample::subsequence(vec!["app", "side", "ü/~", "enable-core-dump"], 1..4);
    let containers =
        names.prop_flat_map(|names| names.into_iter().map(container).collect::<Vec<_>>());
    let init = prop::sample::subsequence(vec!["prepare", "fetch"], 0..3)
        .prop_flat_map(|names| names.into_iter().map(container).collect::<Vec<_>>());
    let volumes = prop::sample::subsequence(vec!["data", "cache", "istio-envoyish"], 0..3);
    (metadata, containers, own_proxy(), init, volumes, any::<bool>()).prop_map(
        |(metadata, mut containers, own_proxy, mut init, volumes, host_network)| {
            match own_proxy {
                Some((proxy, true, place)) => {
                    containers.insert(place.index(containers.len() + 1), proxy);
                }
                Some((proxy, false, place)) => init.insert(place.index(init.len() + 1), proxy),
                None => {}
            }
            let mut pod = json!({"metadata": metadata, "spec": {"containers": containers}});
            let spec = pod["spec"].as_object_mut().unwrap();
            if !init.is_empty() {
                spec.insert("initContainers".to_owned(), init.into());
            }
            if !volumes.is_empty() {
                let volumes = volumes.iter().map(|name| json!({"name": name, "emptyDir": {}}));
                spec.insert("volumes".to_owned(), volumes.collect());
            }
            spec.insert("future".to_owned(), json!({"field": [1, {"~": null}]}));
            if host_network {
                spec.insert("hostNetwork".to_owned(), false.into());
            }
            pod
        },
    )
}

/// Generates a user-supplied proxy, whether it is under `containers`, and its index there.
fn own_proxy() -> impl Strategy<Value = Option<(Value, bool, prop::sample::Index)>> {
    let proxy = prop_oneof![
        Just(json!({"name": "istio-proxy", "image": "auto"})),
        Just(json!({"name": "istio-proxy", "image": "auto", "args": ["proxy", "mine"],
                    "securityContext": {"runAsUser": 1338}, "env": [{"name": "MINE", "value": "1"}]})),
        Just(json!({"name": "istio-proxy", "image": "example/proxy:1", "future": {"a": 1},
                    "resources": {"requests": {"cpu": "1"}}})),
        container("istio-proxy"),
    ];
    prop::option::weighted(0.4, (proxy, any::<bool>(), any::<prop::sample::Index>()))
}

fn container(name: &'static str) -> impl Strategy<Value = Value> {
    let env = prop::collection::vec(("[A-Z]{1,4}", ".{0,8}"), 0..5);
    (env, probe(), probe(), probe(), prop::option::of(1u16..9000)).prop_map(
        move |(env, readiness, liveness, pre_stop, port)| {
            let mut container = Map::new();
            let mut put = |key: &str, value| container.insert(key.to_owned(), value);
            put("name", name.into());
            put("image", "example/app:1".into());
            put("future", json!({"a/b~c": null}));
            if !env.is_empty() {
                let env = env.iter().map(|(name, value)| json!({"name": name, "value": value}));
                put("env", env.collect());
            }
            if let Some(port) = port {
                put("ports", json!([{"name": "web", "containerPort": port}]));
            }
            for (key, probe) in [("readinessProbe", readiness), ("livenessProbe", liveness)] {
                if let Some(probe) = probe {
                    put(key, probe);
                }
            }
            if let Some(handler) = pre_stop {
                put("lifecycle", json!({"preStop": handler}));
            }
            Value::Object(container)
        },
    )
}

fn probe() -> impl Strategy<Value = Option<Value>> {
    prop::option::of(prop_oneof![
        (1u16..9000).prop_map(|port| json!({"httpGet": {"path": "/", "port": port}})),
        Just(json!({"httpGet": {"port": "web", "scheme": "HTTPS"}, "timeoutSeconds": 2})),
        (1u16..9000).prop_map(|port| json!({"tcpSocket": {"port": port}})),
        (1u16..9000).prop_map(|port| json!({"grpc": {"port": port}})),
        Just(json!({"exec": {"command": ["true"]}})),
    ])
}

fn entries() -> impl Strategy<Value = Value> {
    let known = prop_oneof![
        Just(("app".to_owned(), "web".to_owned())),
        Just(("version".to_owned(), "v1".to_owned())),
        Just(("sidecar.istio.io/inject".to_owned(), "true".to_owned())),
        Just(("sidecar.istio.io/proxyCPU".to_owned(), "50m".to_owned())),
        Just(("status.sidecar.istio.io/port".to_owned(), "15022".to_owned())),
        Just(("traffic.sidecar.istio.io/excludeInboundPorts".to_owned(), "9090, 80".to_owned())),
        Just(("prometheus.io/port".to_owned(), "8080".to_owned())),
        Just(("prometheus.io/scrape".to_owned(), "true".to_owned())),
        Just(("prometheus.istio.io/scrape-targets".to_owned(), "8080:/m,9090".to_owned())),
        Just(("topology.istio.io/network".to_owned(), "n1".to_owned())),
        ("[a-z~/ü]{1,6}", ".{0,8}"),
    ];
    prop::collection::vec(known, 0..5).prop_map(|entries| {
        Value::Object(entries.into_iter().map(|(key, value)| (key, Value::from(value))).collect())
    })
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "metadata",
        "spec",
        "labels",
        "annotations",
        "containers",
        "initContainers",
        "volumes",
        "name",
        "env",
        "ports",
        "readinessProbe",
        "httpGet",
        "port",
        "lifecycle",
        "preStop",
        "securityContext",
        "sidecar.istio.io/status",
        "proxy.istio.io/overrides",
        "image",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys.clone(), inner, 0..6).prop_map(|members| {
                Value::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}
