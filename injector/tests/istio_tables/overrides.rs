//! What a pod records of the containers that its user wrote, and pods with a proxy too many.

use serde_json::{Value, json};

use crate::stage::{Stage, names, pod_of};

const OVERRIDES: &str = "proxy.istio.io/overrides";

fn record(pod: &Value) -> Value {
    let text = pod["metadata"]["annotations"][OVERRIDES].as_str().expect("a record");
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_record_is_in_the_order_of_the_overlay() {
    let annotations = json!({"inject.istio.io/templates": "grpc-agent"});
    let containers = json!([
        {"name": "app", "image": "app:1", "ports": [{"containerPort": 80}]},
        {"name": "istio-proxy", "image": "auto", "ports": [{"containerPort": 81}]},
        {"name": "other", "image": "app:2", "ports": [{"containerPort": 82}]},
    ]);
    let injected = Stage::default().pod(&pod_of(&annotations, &containers));
    let names: Vec<_> = record(&injected)["containers"].as_array().unwrap().clone();
    let names: Vec<_> = names.iter().map(|own| own["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["istio-proxy", "app", "other"]);
}

#[test]
fn the_record_is_spelt_as_kubernetes_types_spell_it_and_the_pod_as_its_user_did() {
    let resources = json!({"limits": {"cpu": "3000m", "memory": "2048Mi"}});
    let containers = json!([
        {"name": "app", "image": "app:1"},
        {"name": "istio-proxy", "image": "auto", "resources": resources},
    ]);
    let injected = Stage::default().pod(&pod_of(&json!({}), &containers));
    let spelt = json!({"limits": {"cpu": "3", "memory": "2Gi"}});
    assert_eq!(record(&injected)["initContainers"][0]["resources"], spelt);
    let limits = &crate::stage::container(&injected, "istio-proxy")["resources"]["limits"];
    assert_eq!(limits, &resources["limits"]);

    let annotations = json!({"inject.istio.io/templates": "grpc-simple"});
    let containers = json!([{"name": "app", "image": "app:1"}]);
    let injected = Stage::default().pod(&pod_of(&annotations, &containers));
    let spelt = json!({"name": "app", "image": "app:1", "resources": {}});
    assert_eq!(record(&injected)["containers"], json!([spelt]));
}

/// The place of the user's proxy among the containers is told by the ports that it was told of.
#[test]
fn ports_of_one_number_are_told_apart_by_their_names() {
    let port = |name: &str| json!([{"name": name, "containerPort": 9090}]);
    for proxy in 0..3 {
        let mut containers = vec![
            json!({"name": "app", "image": "app:1", "ports": port("http")}),
            json!({"name": "other", "image": "app:1", "ports": port("grpc")}),
        ];
        let own = json!({"name": "istio-proxy", "image": "auto", "ports": port("own")});
        containers.insert(proxy, own);
        // `pod` injects once more, which changes nothing.
        Stage::default().pod(&pod_of(&json!({}), &containers.into()));
    }
}

/// Overlays that name all containers would find it among them.
#[test]
fn a_proxy_that_was_written_as_an_init_container_is_one_for_the_next_injection() {
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
                let injected = Stage::default().injection(&pod).unwrap().pod;
                let again = Stage::default().injection(&injected).unwrap().pod;
                assert_eq!(again, injected, "{templates} {list} {native}");
                let env = &crate::stage::container(&injected, "istio-proxy")["env"];
                let env = env.as_array().unwrap().iter();
                let bootstrap = env.filter(|one| one["name"] == "GRPC_XDS_BOOTSTRAP").count();
                assert_eq!(bootstrap, usize::from(list == "containers"), "{templates} {native}");
            }
        }
    }
}

#[test]
fn what_has_no_name_in_a_record_is_of_no_container() {
    for nameless in [json!({"image": "evil"}), json!({"name": "", "image": "evil"})] {
        let annotations = json!({OVERRIDES: json!({"containers": [nameless]}).to_string()});
        let containers = json!([{"name": "app", "image": "app:1"}]);
        // `pod` injects once more, which changes nothing.
        Stage::default().pod(&pod_of(&annotations, &containers));
    }
}

/// Istio's `sidecar,spire` leaves a second proxy, without an image, under `containers`.
#[test]
fn two_proxies_of_an_earlier_injection_become_one() {
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
        let injected = Stage::default().injection(&pod).unwrap().pod;
        assert_eq!(names(&injected, "containers"), containers, "{native}");
        assert_eq!(names(&injected, "initContainers"), init, "{native}");
        let proxy = crate::stage::container(&injected, "istio-proxy");
        assert!(proxy["volumeMounts"].as_array().unwrap().contains(&socket[0]), "{native}");
        assert_eq!(Stage::default().injection(&injected).unwrap().pod, injected, "{native}");
    }
}
