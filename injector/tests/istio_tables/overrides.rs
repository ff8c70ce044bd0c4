//! Records of user-supplied containers, and pods with two proxies.

use injector::inject::InjectionOutcome;
use injector::inject::policy::Rules;
use serde_json::{Value, json};

use crate::fixture::{Fixture, container, names, pod, pod_of, variable};

const OVERRIDES: &str = "proxy.istio.io/overrides";

fn record(pod: &Value) -> Value {
    let text = pod["metadata"]["annotations"][OVERRIDES].as_str().expect("a record");
    serde_json::from_str(text).unwrap()
}

#[test]
fn record_has_the_order_of_the_overlay() {
    let annotations = json!({"inject.istio.io/templates": "grpc-agent"});
    let containers = json!([
        {"name": "app", "image": "app:1", "ports": [{"containerPort": 80}]},
        {"name": "istio-proxy", "image": "auto", "ports": [{"containerPort": 81}]},
        {"name": "other", "image": "app:2", "ports": [{"containerPort": 82}]},
    ]);
    let injected = Fixture::default().pod(&pod_of(&annotations, &containers));
    let names: Vec<_> = record(&injected)["containers"].as_array().unwrap().clone();
    let names: Vec<_> = names.iter().map(|own| own["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["istio-proxy", "app", "other"]);
}

#[test]
fn record_has_canonical_field_names() {
    let resources = json!({"limits": {"cpu": "3000m", "memory": "2048Mi"}});
    let containers = json!([
        {"name": "app", "image": "app:1"},
        {"name": "istio-proxy", "image": "auto", "resources": resources},
    ]);
    let injected = Fixture::default().pod(&pod_of(&json!({}), &containers));
    let spelt = json!({"limits": {"cpu": "3", "memory": "2Gi"}});
    assert_eq!(record(&injected)["initContainers"][0]["resources"], spelt);
    let limits = &container(&injected, "istio-proxy")["resources"]["limits"];
    assert_eq!(limits, &resources["limits"]);

    let annotations = json!({"inject.istio.io/templates": "grpc-simple"});
    let containers = json!([{"name": "app", "image": "app:1"}]);
    let injected = Fixture::default().pod(&pod_of(&annotations, &containers));
    let spelt = json!({"name": "app", "image": "app:1", "resources": {}});
    assert_eq!(record(&injected)["containers"], json!([spelt]));
}

/// The ports recorded in the proxy show the position of a user-supplied proxy among the containers.
#[test]
fn ports_with_equal_numbers_differ_by_name() {
    let port = |name: &str| json!([{"name": name, "containerPort": 9090}]);
    for proxy in 0..3 {
        let mut containers = vec![
            json!({"name": "app", "image": "app:1", "ports": port("http")}),
            json!({"name": "other", "image": "app:1", "ports": port("grpc")}),
        ];
        let own = json!({"name": "istio-proxy", "image": "auto", "ports": port("own")});
        containers.insert(proxy, own);
        // `pod` checks that reinjection changes nothing.
        Fixture::default().pod(&pod_of(&json!({}), &containers.into()));
    }
}

/// Without that, overlays that list all containers would find the proxy among them.
#[test]
fn init_container_proxy_is_recognised_by_reinjection() {
    for templates in [
        "grpc-simple,sidecar",
        "sidecar,grpc-simple",
        "gateway,grpc-simple",
        "grpc-simple,grpc-agent",
    ] {
        for list in ["containers", "initContainers"] {
            for native in ["true", "false"] {
                let annotations = json!({
                    "inject.istio.io/templates": templates,
                    "sidecar.istio.io/nativeSidecar": native,
                });
                let mut pod = pod_of(&annotations, &json!([{"name": "app", "image": "app:1"}]));
                let proxy = json!({"name": "istio-proxy", "image": "auto"});
                match pod["spec"][list].as_array_mut() {
                    Some(containers) => containers.push(proxy),
                    None => pod["spec"][list] = json!([proxy]),
                }
                let injected = Fixture::default().injection(&pod).unwrap().pod;
                let again = Fixture::default().injection(&injected).unwrap().pod;
                assert_eq!(again, injected, "{templates} {list} {native}");
                let env = &container(&injected, "istio-proxy")["env"];
                let env = env.as_array().unwrap().iter();
                let bootstrap = env.filter(|one| one["name"] == "GRPC_XDS_BOOTSTRAP").count();
                assert_eq!(bootstrap, usize::from(list == "containers"), "{templates} {native}");
            }
        }
    }
}

#[test]
fn recorded_containers_without_name_are_ignored() {
    for nameless in [json!({"image": "evil"}), json!({"name": "", "image": "evil"})] {
        let annotations = json!({OVERRIDES: json!({"containers": [nameless]}).to_string()});
        let containers = json!([{"name": "app", "image": "app:1"}]);
        // `pod` checks that reinjection changes nothing.
        Fixture::default().pod(&pod_of(&annotations, &containers));
    }
}

/// Istio's `sidecar,spire` leaves a second proxy, without an image, under `containers`.
#[test]
fn two_previously_injected_proxies_become_one() {
    let status = json!({"initContainers": ["istio-proxy"], "containers": ["istio-proxy"]});
    let annotations = json!({"sidecar.istio.io/status": status.to_string()});
    let socket = json!([{"name": "workload-socket", "mountPath": "/run/spiffe", "readOnly": true}]);
    let mut pod = pod_of(
        &annotations,
        &json!([
            {"name": "app", "image": "app:1"},
            {"name": "istio-proxy", "volumeMounts": socket},
        ]),
    );
    pod["spec"]["initContainers"] =
        json!([{"name": "istio-proxy", "image": "proxy:1", "restartPolicy": "Always"}]);
    for (native, containers, init) in [
        ("true", &["app"][..], &["istio-init", "istio-proxy"][..]),
        ("false", &["app", "istio-proxy"], &["istio-init"]),
    ] {
        pod["metadata"]["annotations"]["sidecar.istio.io/nativeSidecar"] = native.into();
        let injected = Fixture::default().injection(&pod).unwrap().pod;
        assert_eq!(names(&injected, "containers"), containers, "{native}");
        assert_eq!(names(&injected, "initContainers"), init, "{native}");
        let proxy = container(&injected, "istio-proxy");
        assert!(proxy["volumeMounts"].as_array().unwrap().contains(&socket[0]), "{native}");
        assert_eq!(Fixture::default().injection(&injected).unwrap().pod, injected, "{native}");
    }
}

/// Istio's chart documents `spire` for native sidecars. Istio gives a classic pod two proxies.
#[test]
fn native_sidecar_overlay_applies_to_a_classic_proxy() {
    let mount = json!({"name": "workload-socket", "mountPath": "/run/spiffe", "readOnly": true});
    let proxy = json!({"name": "istio-proxy", "volumeMounts": [mount]});
    let config = json!({
        "policy": "enabled",
        "templates": {"spire": json!({"spec": {"initContainers": [proxy]}}).to_string()},
    });
    for (templates, native, list, init) in [
        ("sidecar,spire", "false", "containers", &["istio-init"][..]),
        ("spire,sidecar", "false", "containers", &["istio-init"]),
        ("sidecar,spire", "true", "initContainers", &["istio-init", "istio-proxy"]),
        ("grpc-agent,spire", "true", "containers", &[]),
        ("gateway,spire", "true", "containers", &[]),
    ] {
        let mut pod = pod(&json!({
            "inject.istio.io/templates": templates,
            "sidecar.istio.io/nativeSidecar": native,
        }));
        for again in [false, true] {
            let outcome =
                Fixture::default().run(&config.to_string(), &json!({}), &pod, Rules::Admission);
            let InjectionOutcome::Injected(injection) = outcome.unwrap() else { panic!("skipped") };
            assert!(!again || injection.pod == pod, "{templates} {native}: injected twice");
            pod = injection.pod;
        }
        assert_eq!(names(&pod, "initContainers"), init, "{templates} {native}");
        assert!(names(&pod, list).contains(&"istio-proxy"), "{templates} {native}");
        let proxy = container(&pod, "istio-proxy");
        assert!(proxy["volumeMounts"].as_array().unwrap().contains(&mount), "{templates}");
        assert!(proxy["image"].is_string(), "{templates}");
    }
}

/// An API server removes zero values before it calls a webhook, and so does Istio in a file.
#[test]
fn zero_values_in_a_user_supplied_proxy_have_no_effect() {
    let zeros = json!({
        "name": "istio-proxy", "image": "auto", "args": [], "command": [], "ports": [],
        "env": [
            {"name": "ISTIO_META_CLUSTER_ID", "value": ""},
            {"name": "POD_NAME", "value": ""},
            {"name": "OWN", "value": ""},
        ],
        "readinessProbe": {"periodSeconds": 0, "failureThreshold": 0},
        "securityContext": {"readOnlyRootFilesystem": false, "runAsGroup": 0},
    });
    let injected = Fixture::default().pod(&pod_with(&json!({}), "containers", &zeros));
    let proxy = container(&injected, "istio-proxy");
    assert_eq!(proxy["args"][0], "proxy");
    assert_eq!(variable(&injected, "ISTIO_META_CLUSTER_ID"), Some("Kubernetes"));
    assert_eq!(proxy["readinessProbe"]["periodSeconds"], 15);
    // Zero values of pointer fields are kept.
    assert_eq!(proxy["securityContext"]["readOnlyRootFilesystem"], false);
    assert_eq!(proxy["securityContext"]["runAsGroup"], 0);
}

#[test]
fn type_error_in_a_proxy_names_container_and_field() {
    let mounts = json!([{"name": "v"}]);
    let proxy = json!({"name": "istio-proxy", "image": "auto", "volumeMounts": mounts});
    let record = json!({"initContainers": [proxy]}).to_string();
    for (given, start) in [
        (
            pod_with(&json!({}), "containers", &proxy),
            "the user-supplied fields of the injected container istio-proxy: volumeMounts: ",
        ),
        (
            pod(&json!({OVERRIDES: record})),
            "annotation proxy.istio.io/overrides: container istio-proxy: volumeMounts: ",
        ),
    ] {
        let error = Fixture::default().injection(&given).unwrap_err();
        assert_eq!(error.word(), "merge_failed");
        assert!(error.to_string().starts_with(start), "{error}");
        assert!(!error.without_values().contains("mountPath"), "{}", error.without_values());
    }
}

#[test]
fn two_user_supplied_proxies_are_rejected() {
    let proxy = json!({"name": "istio-proxy", "image": "auto"});
    let mut given = pod_with(&json!({}), "containers", &proxy);
    given["spec"]["initContainers"] = json!([proxy]);
    let error = Fixture::default().injection(&given).unwrap_err().to_string();
    let start = "pod: container \"istio-proxy\" is in spec.containers and spec.initContainers";
    assert!(error.starts_with(start), "{error}");
}

/// Kubernetes would reject two containers of one name, and name one that the user did not write.
#[test]
fn container_name_taken_in_the_other_list_is_rejected() {
    let cni = || json!({"pilot": {"cni": {"enabled": true}}});
    for (list, name, values, refused) in [
        ("containers", "istio-init", json!({}), true),
        ("containers", "istio-validation", json!({}), false),
        ("containers", "istio-validation", cni(), true),
        ("containers", "istio-init", cni(), false),
        ("containers", "enable-core-dump", json!({}), false),
        ("ephemeralContainers", "istio-init", json!({}), true),
        ("ephemeralContainers", "istio-proxy", json!({}), true),
        ("initContainers", "istio-init", json!({}), false),
        ("initContainers", "istio-proxy", json!({}), false),
    ] {
        let fixture = Fixture::with_values(values);
        let given = pod_with(&json!({}), list, &json!({"name": name, "image": "i"}));
        if !refused {
            fixture.pod(&given);
            continue;
        }
        let error = fixture.injection(&given).unwrap_err().to_string();
        let start = format!(
            "pod: container \"{name}\" of spec.{list} has the name of a container injected"
        );
        assert!(error.starts_with(&start) && error.contains("rename it"), "{error}");
    }
}

#[test]
fn nulls_in_lists_of_unknown_fields_stay() {
    let future = json!({"a": [null, {}, {"b": []}, []]});
    let own = |name: &str| json!({"name": name, "image": "i", "future": future});
    let record = json!({"initContainers": [own("istio-init")]}).to_string();
    // `pod` checks that reinjection changes nothing.
    Fixture::default().pod(&pod(&json!({OVERRIDES: record})));
    for (name, list) in [
        ("istio-init", "initContainers"),
        ("istio-proxy", "initContainers"),
        ("istio-proxy", "containers"),
    ] {
        for native in ["true", "false"] {
            let annotations = json!({"sidecar.istio.io/nativeSidecar": native});
            let given = pod_with(&annotations, list, &own(name));
            let after = Fixture::default().pod(&given);
            assert_eq!(container(&after, name)["future"], future, "{name} {list} {native}");
        }
    }
}

/// Kubernetes rejects the user's field beside the template's. Istio's pod has both.
#[test]
fn fields_excluded_by_user_fields_are_omitted_with_warning() {
    let injected_with = |fields: Value| {
        let mut proxy = json!({"name": "istio-proxy", "image": "auto"});
        proxy.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let given = pod_with(&json!({}), "containers", &proxy);
        let first = Fixture::default().injection(&given).unwrap();
        let again = Fixture::default().injection(&first.pod).unwrap();
        assert_eq!(again.pod, first.pod, "{fields}");
        let warnings = first.warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
        (container(&first.pod, "istio-proxy").clone(), warnings)
    };
    let (proxy, warnings) = injected_with(json!({"resources": {"requests": {"cpu": "4"}}}));
    assert_eq!(proxy["resources"]["limits"], json!({"memory": "1024Mi"}));
    assert_eq!(proxy["resources"]["requests"], json!({"cpu": "4", "memory": "128Mi"}));
    let start = "the user-supplied cpu request of container istio-proxy (\"4\") conflicts with the injected limit (\"2000m\")";
    assert!(warnings.len() == 1 && warnings[0].starts_with(start), "{warnings:?}");

    let (proxy, warnings) = injected_with(json!({"resources": {"limits": {"memory": "64Mi"}}}));
    assert_eq!(proxy["resources"]["requests"], json!({"cpu": "100m"}));
    assert_eq!(warnings.len(), 1, "{warnings:?}");

    let port = json!({"name": "http-envoy-prom", "containerPort": 9000});
    let (proxy, warnings) = injected_with(json!({"ports": [port]}));
    let named = proxy["ports"].as_array().unwrap().iter().filter(|port| port["name"].is_string());
    assert_eq!(named.collect::<Vec<_>>(), [&port]);
    assert!(
        warnings[0].starts_with("port \"http-envoy-prom\" of container istio-proxy"),
        "{warnings:?}"
    );

    for security in
        [json!({"privileged": true}), json!({"capabilities": {"add": ["CAP_SYS_ADMIN"]}})]
    {
        let (proxy, warnings) = injected_with(json!({"securityContext": security}));
        assert!(proxy["securityContext"].get("allowPrivilegeEscalation").is_none());
        assert_eq!(warnings, [""; 0]);
    }
    let (_, warnings) = injected_with(json!({"securityContext": {"runAsUser": 0}}));
    assert!(
        warnings[0].starts_with("container istio-proxy has the user-supplied runAsUser 0"),
        "{warnings:?}"
    );
    let root = json!({"securityContext": {"runAsUser": 0, "runAsNonRoot": false}});
    assert_eq!(injected_with(root).1, [""; 0]);
    // The template's fields without a conflict stay.
    let (proxy, warnings) = injected_with(json!({"resources": {"requests": {"cpu": "1"}}}));
    assert_eq!((&proxy["resources"]["limits"]["memory"], warnings), (&json!("1024Mi"), vec![]));
}

/// Returns a pod with one container, and one more in a list.
fn pod_with(annotations: &Value, list: &str, more: &Value) -> Value {
    let mut pod = pod(annotations);
    match pod["spec"][list].as_array_mut() {
        Some(containers) => containers.push(more.clone()),
        None => pod["spec"][list] = json!([more]),
    }
    pod
}
