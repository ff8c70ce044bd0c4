//! Reinjection after a change of the settings or of the pod.

use injector::inject::InjectionOutcome;
use injector::inject::policy::Rules;
use injector::settings::Process;
use serde_json::{Value, json};

use crate::fixture::{Fixture, container, names, pod, pod_of, variable};

const DELAY: &str = "readiness.status.sidecar.istio.io/initialDelaySeconds";
const NATIVE: &str = "sidecar.istio.io/nativeSidecar";

#[test]
fn user_supplied_proxy_is_kept_when_the_mode_changes() {
    for (first, second) in [("true", "false"), ("false", "true")] {
        for (list, image) in
            [("containers", "mine:1"), ("containers", "auto"), ("initContainers", "mine:1")]
        {
            let proxy = json!({"name": "istio-proxy", "image": image, "args": ["x"],
                "resources": {"limits": {"cpu": "3"}}});
            let mut pod = pod(&json!({NATIVE: first}));
            match pod["spec"][list].as_array_mut() {
                Some(containers) => containers.push(proxy),
                None => pod["spec"][list] = json!([proxy]),
            }
            let mut pod = Fixture::default().pod(&pod);
            pod["metadata"]["annotations"][NATIVE] = second.into();
            let pod = Fixture::default().pod(&pod);
            let proxy = container(&pod, "istio-proxy");
            assert_eq!(proxy["args"], json!(["x"]), "{first} {list} {image}");
            assert_eq!(proxy["resources"]["limits"]["cpu"], "3", "{first} {list} {image}");
            assert_eq!(proxy["image"] == "mine:1", image == "mine:1", "{first} {list} {image}");
        }
    }
}

/// Istio turns a proxy that it put into `containers` into a native sidecar, and keeps its fields.
#[test]
fn holding_proxy_keeps_its_fields_until_an_upgrade() {
    let hold = json!({"defaultConfig": {"holdApplicationUntilProxyStarts": true}});
    let fixture = Fixture::with_mesh(hold.clone());
    let mut pod = fixture.pod(&pod(&json!({NATIVE: "false", DELAY: "7"})));
    for key in [NATIVE, DELAY] {
        pod["metadata"]["annotations"].as_object_mut().unwrap().remove(key);
    }
    let is_kept = |pod: &Value| {
        let warnings = fixture.injection(pod).unwrap().warnings;
        warnings.iter().any(|warning| warning.word() == "kept_proxy")
    };
    assert!(is_kept(&pod));
    let pod = fixture.pod(&pod);
    let delay = |pod: &Value| {
        container(pod, "istio-proxy")["readinessProbe"]["initialDelaySeconds"].clone()
    };
    assert_eq!(names(&pod, "initContainers"), ["istio-init", "istio-proxy"]);
    assert_eq!(delay(&pod), 7);
    assert!(is_kept(&pod), "it still stands over the template");
    for fixture in [
        Fixture { values: json!({"global": {"tag": "9.9.9"}}), ..fixture.clone() },
        Fixture {
            process: Process { revision: "next".to_owned(), ..fixture.process.clone() },
            ..fixture.clone()
        },
    ] {
        assert_eq!(delay(&fixture.pod(&pod)), Value::Null);
    }
}

#[test]
fn proxy_that_changes_lists_loses_the_old_hook() {
    for (first, second) in [("true", "false"), ("false", "true")] {
        let hold = |on: bool| json!({"defaultConfig": {"holdApplicationUntilProxyStarts": on}});
        let older = json!({"global": {"tag": "1.1.1"}});
        let fixture = Fixture { values: older, ..Fixture::with_mesh(hold(true)) };
        let mut pod = fixture.pod(&pod(&json!({NATIVE: first})));
        pod["metadata"]["annotations"][NATIVE] = second.into();
        let fixture = Fixture::with_mesh(hold(false));
        let again = fixture.injection(&pod).unwrap().pod;
        let fresh = fixture.pod(&self::pod(&json!({NATIVE: second})));
        let lifecycle = |pod| &container(pod, "istio-proxy")["lifecycle"];
        assert_eq!(lifecycle(&again), lifecycle(&fresh), "{first} {second}");
        assert_eq!(fixture.injection(&again).unwrap().pod, again, "{first} {second}");
    }
}

/// The proxy metadata may set a variable that the template also sets; the later one counts.
#[test]
fn proxy_metadata_replaces_a_template_variable_in_place() {
    let app = json!({"name": "app", "image": "app:1", "readinessProbe": {"httpGet": {"port": 80}}});
    let own =
        json!({"name": "istio-proxy", "image": "auto", "env": [{"name": "MINE", "value": "1"}]});
    let metadata = "proxyMetadata: {POD_NAME: a, INSTANCE_IP: b, ISTIO_CPU_LIMIT: c, TRUST_DOMAIN: d, \
                    ISTIO_META_CLUSTER_ID: e, ISTIO_KUBE_APP_PROBERS: f}";
    for containers in [json!([app]), json!([app, own])] {
        for template in ["sidecar", "gateway", "grpc-agent"] {
            for cluster in ["", "c1"] {
                let annotations = json!({
                    "proxy.istio.io/config": metadata, "inject.istio.io/templates": template,
                });
                let values = json!({"global": {"multiCluster": {"clusterName": cluster}}});
                // `pod` checks that reinjection changes nothing.
                let pod = Fixture::with_values(values).pod(&pod_of(&annotations, &containers));
                let env = container(&pod, "istio-proxy")["env"].as_array().unwrap();
                let last = |name: &str| env.iter().rfind(|one| one["name"] == name).unwrap();
                for (name, value) in
                    [("POD_NAME", "a"), ("INSTANCE_IP", "b"), ("TRUST_DOMAIN", "d")]
                {
                    assert_eq!(last(name)["value"], value, "{template}");
                    assert!(last(name).get("valueFrom").is_none(), "{template}");
                }
                let cluster = if cluster.is_empty() { "e" } else { cluster };
                assert_eq!(last("ISTIO_META_CLUSTER_ID")["value"], cluster, "{template}");
                let probers = last("ISTIO_KUBE_APP_PROBERS")["value"].as_str().unwrap();
                let rewritten = template != "grpc-agent";
                assert_eq!(probers.contains("/app-health/app/readyz"), rewritten, "{template}");
            }
        }
    }
}

#[test]
fn removed_probe_delay_leaves_the_pod() {
    let mut pod = Fixture::default().pod(&pod(&json!({DELAY: "7"})));
    let list = pod["spec"]["initContainers"].as_array_mut().unwrap();
    let proxy = list.iter_mut().find(|container| container["name"] == "istio-proxy").unwrap();
    assert_eq!(proxy["readinessProbe"]["initialDelaySeconds"], 7);
    proxy["startupProbe"]["initialDelaySeconds"] = 7.into();
    pod["metadata"]["annotations"][DELAY] = "0".into();
    let pod = Fixture::default().pod(&pod);
    for probe in ["readinessProbe", "startupProbe"] {
        let delay = container(&pod, "istio-proxy")[probe].get("initialDelaySeconds");
        assert_eq!(delay, None, "{probe}");
    }
}

/// The chart's template writes the zero value; the API server omits it.
#[test]
fn zero_and_absent_are_equal_for_reinjection() {
    let injected = Fixture::default().pod(&pod(&json!({"inject.istio.io/templates": "gateway"})));
    for zero in [true, false] {
        let mut pod = injected.clone();
        let containers = pod["spec"]["containers"].as_array_mut().unwrap();
        let proxy = containers.iter_mut().find(|one| one["name"] == "istio-proxy").unwrap();
        let probe = proxy["readinessProbe"].as_object_mut().unwrap();
        probe.remove("initialDelaySeconds");
        let env = proxy["env"].as_array_mut().unwrap();
        let empty = json!({"name": "ISTIO_META_APP_CONTAINERS", "value": ""});
        for one in env {
            if one["name"] == empty["name"] {
                *one = empty.clone();
            }
            if !zero {
                one.as_object_mut().unwrap().retain(|_, value| value != "");
            }
        }
        if zero {
            proxy["readinessProbe"]["initialDelaySeconds"] = 0.into();
        }
        pod["spec"]["containers"].as_array_mut().unwrap().retain(|one| one["name"] != "app");
        assert_eq!(Fixture::default().pod(&pod), pod, "{zero}");
    }
}

#[test]
fn resources_removed_from_the_values_leave_the_pod() {
    let pod = Fixture::default().pod(&pod(&json!({})));
    let none = json!({"global": {"proxy": {"resources": null}}});
    let pod = Fixture::with_values(none).pod(&pod);
    for name in ["istio-init", "istio-proxy"] {
        assert_eq!(container(&pod, name).get("resources"), None, "{name}");
    }
}

/// Kubernetes' types write an empty `resources`, so the pod has it at reinjection.
#[test]
fn empty_resources_of_the_api_server_stay() {
    for templates in ["sidecar", "gateway", "grpc-agent"] {
        let fixture = Fixture::with_values(json!({"global": {"proxy": {"resources": null}}}));
        let mut pod = fixture.pod(&pod(&json!({"inject.istio.io/templates": templates})));
        for list in ["containers", "initContainers"] {
            for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                container["resources"] = json!({});
            }
        }
        assert_eq!(fixture.pod(&pod), pod, "{templates}");
    }
}

#[test]
fn volume_without_source_keeps_the_default_source() {
    let names = ["workload-socket", "credential-socket", "workload-certs"];
    for templates in ["sidecar", "gateway", "grpc-agent", "gateway,sidecar", "gateway,grpc-agent"] {
        let given = pod(&json!({"inject.istio.io/templates": templates}));
        let mut given = Fixture::default().pod(&given);
        for volume in given["spec"]["volumes"].as_array_mut().unwrap() {
            if volume["name"] == names[0] {
                assert_eq!(*volume, json!({"name": names[0]}), "{templates}");
            }
            if names.iter().any(|name| volume["name"] == *name) {
                volume["emptyDir"] = json!({});
            }
        }
        assert_eq!(Fixture::default().pod(&given), given, "{templates}");
    }
}

#[test]
fn computed_variables_precede_user_variables() {
    let annotations = json!({"prometheus.io/port": "8080"});
    let app = json!({"name": "app", "image": "app:1", "readinessProbe": {"httpGet": {"port": 80}}});
    let env = json!([
        {"name": "ISTIO_META_NETWORK", "value": "mine"}, {"name": "POD_NAME", "value": "mine"},
        {"name": "ISTIO_KUBE_APP_PROBERS", "value": "{}"},
        {"name": "ISTIO_PROMETHEUS_ANNOTATIONS", "value": "{}"},
    ]);
    let proxy = json!({"name": "istio-proxy", "image": "auto", "env": env});
    let own = pod_of(&annotations, &json!([app, proxy]));
    let bare = pod_of(&annotations, &json!([app]));
    let network = [("ISTIO_META_CLUSTER_ID", "c"), ("ISTIO_META_NETWORK", "n")];
    let computed = [("ISTIO_KUBE_APP_PROBERS", "x"), ("ISTIO_PROMETHEUS_ANNOTATIONS", "x")];
    for (pod, path) in [(&own, &network[..]), (&own, &[]), (&bare, &computed)] {
        for native_sidecars in [true, false] {
            let path = path.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let mut fixture = Fixture { path_env: path.collect(), ..Fixture::default() };
            fixture.process.native_sidecars = native_sidecars;
            // `pod` checks that reinjection changes nothing.
            let pod = fixture.pod(pod);
            let has = |name, part| variable(&pod, name).is_some_and(|value| value.contains(part));
            assert!(has("ISTIO_KUBE_APP_PROBERS", "/app-health/app/readyz"), "{pod:#}");
            assert!(has("ISTIO_PROMETHEUS_ANNOTATIONS", "8080"), "{pod:#}");
            let record = pod["metadata"]["annotations"]["proxy.istio.io/overrides"].as_str();
            let kept = record.is_none_or(|record| record.contains(&Value::to_string(&env)));
            assert!(kept, "{record:?}");
        }
    }
}

/// Injects the pod with a template of the configuration. Checks that reinjection changes nothing,
/// neither in the injected pod nor in the pod as the API server returns it.
fn with_template(template: &str, pod: &Value, back: fn(&mut Value)) -> Value {
    let config = json!({"policy": "enabled", "templates": {"own": template}}).to_string();
    let inject =
        |pod: &Value| match Fixture::default().run(&config, &json!({}), pod, Rules::Admission) {
            Ok(InjectionOutcome::Injected(injection)) => {
                let mut patched = pod.clone();
                json_patch::patch(&mut patched, &injection.patch().owned())
                    .expect("the patch fits");
                assert_eq!(patched, injection.pod, "the patch gives the pod");
                (injection.patch().is_empty(), injection.pod)
            }
            other => panic!("{other:?}"),
        };
    let (_, first) = inject(pod);
    assert!(inject(&first).0, "as it came out: {template}: {:#}", inject(&first).1);
    let mut returned = first.clone();
    back(&mut returned);
    assert!(inject(&returned).0, "as it came back: {template}: {:#}", inject(&returned).1);
    first
}

fn own(templates: &str) -> Value {
    json!({"inject.istio.io/templates": templates})
}

fn app(fields: &Value) -> Value {
    let mut app = json!({"name": "app", "image": "app:1"});
    app.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    app
}

/// Kubernetes' merge drops the value. On reinjection it has something to replace, because the API
/// server wrote a default.
#[test]
fn replace_directive_without_target_is_stable() {
    let template = r#"{"spec": {"securityContext": {"$patch": "replace", "fsGroup": 6},
        "containers": [{"name": "app", "resources": {"$patch": "replace", "limits": {"cpu": "3000m"}}}]}}"#;
    let pod = with_template(template, &pod(&own("own")), |pod| {
        pod["spec"]["containers"][0]["resources"] =
            json!({"limits": {"cpu": "3"}, "requests": {"cpu": "3"}});
    });
    assert_eq!(pod["spec"]["securityContext"], json!({"fsGroup": 6}));
    assert_eq!(container(&pod, "app")["resources"], json!({"limits": {"cpu": "3000m"}}));
}

/// Kubernetes' merge keeps the item in a new container, without its directive.
#[test]
fn delete_directive_applies_to_a_new_container() {
    let template = r#"{"spec": {"containers": [{"name": "extra", "image": "e:1", "env": [
        {"name": "A", "$patch": "delete"}, {"name": "B"}]}]}}"#;
    let pod = with_template(template, &pod(&own("own")), |_| {});
    assert_eq!(container(&pod, "extra")["env"], json!([{"name": "B"}]));
}

#[test]
fn replaced_environment_keeps_agent_variables() {
    let template = r#"{"spec": {"containers": [{"name": "istio-proxy", "env": [{"$patch": "replace"}, {"name": "B"}]}]}}"#;
    let app = app(&json!({"readinessProbe": {"httpGet": {"port": 80}}}));
    let pod = with_template(template, &pod_of(&own("sidecar,own"), &json!([app])), |_| {});
    assert!(variable(&pod, "ISTIO_KUBE_APP_PROBERS").unwrap().contains("/app-health/app/readyz"));
}

#[test]
fn metrics_port_of_a_template_keeps_its_path() {
    let template = r#"{"metadata": {"annotations": {"prometheus.io/port": "80"}}}"#;
    let pod = with_template(template, &pod(&own("sidecar,own")), |_| {});
    let metrics = variable(&pod, "ISTIO_PROMETHEUS_ANNOTATIONS").unwrap();
    assert_eq!(metrics, r#"{"scrape":"","path":"","port":"80"}"#);
}

#[test]
fn default_protocol_causes_no_new_warning() {
    let app = app(&json!({"ports": [{"name": "http", "containerPort": 80}]}));
    with_template("{}", &pod_of(&own("sidecar"), &json!([app])), |pod| {
        pod["spec"]["containers"][0]["ports"][0]["protocol"] = "TCP".into();
    });
}

#[test]
fn requests_defaulted_from_limits_stay() {
    let template = r#"{"spec": {"containers": [{"name": "app", "resources":
        {"limits": {"memory": "1024Mi"}, "requests": null}, "imagePullPolicy": ""}]}}"#;
    with_template(template, &pod(&own("own")), |pod| {
        let app = &mut pod["spec"]["containers"][0];
        app["resources"] = json!({"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}});
        app["imagePullPolicy"] = "IfNotPresent".into();
    });
}

#[test]
fn tolerations_and_accounts_added_by_admission_stay() {
    let template = r#"{"spec": {"tolerations": [{"key": "a"}], "serviceAccountName": null}}"#;
    with_template(template, &pod(&own("own")), |pod| {
        let unready = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 300});
        pod["spec"]["tolerations"].as_array_mut().unwrap().push(unready);
        pod["spec"]["serviceAccountName"] = "default".into();
        pod["spec"]["serviceAccount"] = "default".into();
    });
}

/// `grpc-agent` lists the proxy first, but it comes last in the pod.
#[test]
fn container_of_another_template_keeps_its_position() {
    let template = r#"{"spec": {"containers": [{"name": "extra", "image": "e:1"}]}}"#;
    with_template(template, &pod(&own("own,grpc-agent")), |_| {});
}

#[test]
fn user_port_deleted_by_a_template_keeps_its_protocol() {
    let template = r#"{"spec": {"containers": [{"name": "app", "ports": [{"containerPort": 80, "$patch": "delete"}]}]}}"#;
    let app = app(&json!({"ports": [{"containerPort": 80}]}));
    with_template(template, &pod_of(&own("own"), &json!([app])), |pod| {
        pod["spec"]["containers"][0]["ports"][0]["protocol"] = "TCP".into();
    });
}

#[test]
fn omitted_zeros_and_empty_lists_do_not_return() {
    let template = r#"{"metadata": {"labels": {"x": null}}, "spec": {"containers": [{"name": "extra", "image": "e:1",
        "stdin": false, "args": [], "resources": {"requests": {"cpu": null}}}]}}"#;
    with_template(template, &pod(&own("own")), |pod| {
        pod["metadata"].as_object_mut().unwrap().remove("labels");
        let extra = pod["spec"]["containers"].as_array_mut().unwrap();
        let extra = extra.iter_mut().find(|one| one["name"] == "extra").unwrap();
        *extra = json!({"name": "extra", "image": "e:1", "resources": {}});
    });
}

/// In an unknown field, a list with a known name may have another type.
#[test]
fn lists_in_unknown_fields_are_replaced() {
    let template = r#"{"spec": {"future": {"ports": [80, 81], "env": [{"key": "a"}]}}}"#;
    let pod = with_template(template, &pod(&own("own")), |_| {});
    assert_eq!(pod["spec"]["future"], json!({"ports": [80, 81], "env": [{"key": "a"}]}));
}

/// If the plugin that writes the rules is gone, a validation before `istio-init` would find none.
#[test]
fn validation_container_follows_the_init_container() {
    let cni =
        Fixture { values: json!({"pilot": {"cni": {"enabled": true}}}), ..Fixture::default() };
    let first = cni.pod(&pod(&json!({NATIVE: "false"})));
    assert_eq!(names(&first, "initContainers"), ["istio-validation"]);
    let second = Fixture::default().pod(&first);
    assert_eq!(names(&second, "initContainers"), ["istio-init", "istio-validation"]);
    assert_eq!(Fixture::default().pod(&second), second);
    // The pod's own container stays where Istio puts it.
    let mut own = pod(&json!({NATIVE: "false"}));
    own["spec"]["initContainers"] = json!([
        {"name": "setup", "image": "setup:1"}, {"name": "istio-validation", "image": "own:1"},
    ]);
    let first = Fixture::default().pod(&own);
    assert_eq!(names(&first, "initContainers"), ["istio-validation", "setup", "istio-init"]);
    assert_eq!(Fixture::default().pod(&first), first);
}

/// The record alone counts like a record with the status of a previous injection.
#[test]
fn record_without_status_is_visible_to_templates() {
    let record = r#"{"containers":[{"name":"extra","image":"extra:1"}]}"#;
    let first = Fixture::default().pod(&pod(&json!({"proxy.istio.io/overrides": record})));
    assert_eq!(variable(&first, "ISTIO_META_APP_CONTAINERS"), Some("app,extra"));
    assert_eq!(Fixture::default().pod(&first), first);
}
