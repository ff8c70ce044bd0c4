//! Second call of the webhook (`reinvocationPolicy: IfNeeded`): it repairs what later webhooks do to
//! an injected pod.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use injector::inject::{InjectionOutcome, Target, inject};
use injector::settings::{Documents, Process, Settings};
use serde_json::{Value, json};

/// The second call has the result of one call for the pod with the other webhook's addition.
#[test]
fn additions_of_a_later_webhook_are_part_of_the_pod() {
    let late = json!({"name": "late", "image": "late:1",
        "readinessProbe": {"httpGet": {"port": 8081, "path": "/up"}},
        "lifecycle": {"preStop": {"httpGet": {"port": 8081, "path": "/bye"}}}});
    let setup = json!({"name": "setup", "image": "setup:1"});
    let volume = json!({"name": "late", "emptyDir": {}});
    for native in [true, false] {
        for (list, item, first) in [
            ("containers", &late, false),
            ("containers", &late, true),
            ("initContainers", &setup, false),
            ("initContainers", &setup, true),
            ("volumes", &volume, false),
        ] {
            let add = |mut pod: Value| {
                let items = &mut pod["spec"][list];
                if items.is_null() {
                    *items = json!([]);
                }
                let items = items.as_array_mut().unwrap();
                items.insert(if first { 0 } else { items.len() }, item.clone());
                pod
            };
            let at_once = injected(&add(web()), native);
            let second = injected(&add(injected(&web(), native)), native);
            let [at_once, second_spec] = [&at_once, &second].map(|pod| without_order(&pod["spec"]));
            assert_eq!(second_spec, at_once, "{list}: {first}, {native}");
            assert_eq!(injected(&second, native), second, "{list}: {first}, {native}");
        }
    }
}

/// The second call has the result of the first.
#[test]
fn damage_of_a_later_webhook_is_repaired() {
    for native in [true, false] {
        let first = injected(&web(), native);
        for (damage, pod) in damaged(&first, native) {
            assert_ne!(pod, first, "{damage}");
            let second = injected(&pod, native);
            let (found, expected) = (&second["spec"], &first["spec"]);
            assert_eq!(found, expected, "{damage}, native: {native}");
            assert_eq!(second["metadata"], first["metadata"], "{damage}, native: {native}");
            assert_eq!(injected(&second, native), second, "{damage}, native: {native}");
        }
    }
}

/// Changes of later webhooks to other fields stay.
#[test]
fn other_changes_of_a_later_webhook_stay() {
    for native in [true, false] {
        let mut pod = injected(&web(), native);
        let limits = json!({"limits": {"memory": "64Mi"}});
        pod["spec"]["containers"].as_array_mut().unwrap().iter_mut().for_each(|container| {
            if container["name"] == "web" {
                container["resources"] = limits.clone();
            }
        });
        pod["spec"]["nodeSelector"] = json!({"pool": "a"});
        pod["metadata"]["annotations"]["other.example/injected"] = "true".into();
        assert_eq!(injected(&pod, native), pod, "{native}");
    }
}

/// Returns pods as other webhooks leave them, with the name of the damage.
fn damaged(pod: &Value, native: bool) -> Vec<(&'static str, Value)> {
    let list = if native { "initContainers" } else { "containers" };
    let mut found = Vec::new();
    let mut damage = |name, work: &dyn Fn(&mut Value)| {
        let mut pod = pod.clone();
        work(&mut pod);
        found.push((name, pod));
    };
    if native {
        // A client with types of Kubernetes 1.27 decodes and encodes the pod.
        damage("stripped restartPolicy", &|pod| {
            proxy(pod, list).as_object_mut().unwrap().remove("restartPolicy");
        });
        damage("istio-init last", &|pod| {
            pod["spec"][list].as_array_mut().unwrap().rotate_left(1);
        });
    }
    damage("probe of the application", &|pod| {
        let containers = pod["spec"]["containers"].as_array_mut().unwrap();
        let web = containers.iter_mut().find(|container| container["name"] == "web").unwrap();
        web["readinessProbe"] = self::web()["spec"]["containers"][0]["readinessProbe"].clone();
    });
    damage("label", &|pod| {
        pod["metadata"]["labels"].as_object_mut().unwrap().remove("security.istio.io/tlsMode");
    });
    damage("variable", &|pod| {
        let env = proxy(pod, list)["env"].as_array_mut().unwrap();
        env.retain(|variable| variable["name"] != "CA_ADDR");
    });
    damage("image", &|pod| proxy(pod, list)["image"] = "other:1".into());
    damage("user", &|pod| {
        proxy(pod, list)["securityContext"]["runAsUser"] = json!(0);
    });
    damage("mount", &|pod| {
        let mounts = proxy(pod, list)["volumeMounts"].as_array_mut().unwrap();
        mounts.retain(|mount| mount["name"] != "istio-token");
    });
    found
}

fn proxy<'a>(pod: &'a mut Value, list: &str) -> &'a mut Value {
    let containers = pod["spec"][list].as_array_mut().unwrap();
    containers.iter_mut().find(|container| container["name"] == "istio-proxy").unwrap()
}

/// Returns a spec whose lists of named items do not depend on the order of additions, except for
/// containers.
fn without_order(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let volumes = spec["volumes"].as_array_mut().unwrap();
    volumes.sort_by_key(|volume| volume["name"].to_string());
    spec
}

fn web() -> Value {
    json!({
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"containers": [{
            "name": "web", "image": "web:1", "ports": [{"containerPort": 8080}],
            "readinessProbe": {"httpGet": {"port": 8080, "path": "/up"}},
        }]},
    })
}

fn injected(pod: &Value, native_sidecars: bool) -> Value {
    let process = Process { native_sidecars, ..Process::default() };
    let settings = Settings::parse(&Documents::default(), process).unwrap();
    let target = Target::at_admission(pod.clone(), "shop");
    match inject(&settings, target).unwrap() {
        InjectionOutcome::Injected(injection) => injection.pod,
        InjectionOutcome::Skipped { reason, .. } => panic!("{reason}"),
    }
}
