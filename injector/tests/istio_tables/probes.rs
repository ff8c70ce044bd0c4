//! Probes and lifecycle handlers of the application.

use reason::Reason;
use serde_json::{Value, json};

use crate::fixture::{Fixture, container, pod_of, variable};

/// Checks the handlers of one container against the agent's probers.
#[test]
fn agent_gets_the_rewritten_probes() {
    let ports = json!([{"name": "web", "containerPort": 8080}, {"containerPort": 90}]);
    for (handlers, expected) in [
        (
            json!({"readinessProbe": {"httpGet": {"port": 80}}}),
            r#"{"/app-health/app/readyz":{"httpGet":{"port":80}}}"#,
        ),
        (
            json!({"readinessProbe": {"httpGet": {"path": "/ip", "port": 8000}}}),
            r#"{"/app-health/app/readyz":{"httpGet":{"path":"/ip","port":8000}}}"#,
        ),
        (
            json!({"livenessProbe": {"httpGet": {"path": "/", "port": "web", "scheme": "HTTPS"}}}),
            r#"{"/app-health/app/livez":{"httpGet":{"path":"/","port":8080,"scheme":"HTTPS"}}}"#,
        ),
        (
            json!({"startupProbe": {"httpGet": {"port": 80, "host": "", "httpHeaders": [{"name": "Host", "value": "a"}]}, "timeoutSeconds": 10}}),
            r#"{"/app-health/app/startupz":{"httpGet":{"port":80,"httpHeaders":[{"name":"Host","value":"a"}]},"timeoutSeconds":10}}"#,
        ),
        (
            json!({"readinessProbe": {"httpGet": {"port": 80}, "timeoutSeconds": 0}}),
            r#"{"/app-health/app/readyz":{"httpGet":{"port":80}}}"#,
        ),
        (
            json!({"readinessProbe": {"tcpSocket": {"port": 90}}}),
            r#"{"/app-health/app/readyz":{"tcpSocket":{"port":90}}}"#,
        ),
        (
            json!({"readinessProbe": {"tcpSocket": {"port": "web"}}}),
            r#"{"/app-health/app/readyz":{"tcpSocket":{"port":8080}}}"#,
        ),
        (
            json!({"livenessProbe": {"grpc": {"port": 1234}}}),
            r#"{"/app-health/app/livez":{"grpc":{"port":1234,"service":null}}}"#,
        ),
        (
            json!({"livenessProbe": {"grpc": {"port": 15020}}}),
            r#"{"/app-health/app/livez":{"grpc":{"port":15020,"service":null}}}"#,
        ),
        (
            json!({"livenessProbe": {"grpc": {"port": 1234, "service": null}}}),
            r#"{"/app-health/app/livez":{"grpc":{"port":1234,"service":null}}}"#,
        ),
        (
            json!({"livenessProbe": {"grpc": {"port": 1234, "service": ""}}}),
            r#"{"/app-health/app/livez":{"grpc":{"port":1234,"service":""}}}"#,
        ),
        (
            json!({"livenessProbe": {"grpc": {"port": 1234, "service": "s"}, "timeoutSeconds": 2}}),
            r#"{"/app-health/app/livez":{"grpc":{"port":1234,"service":"s"},"timeoutSeconds":2}}"#,
        ),
        (
            json!({"lifecycle": {"preStop": {"httpGet": {"path": "/bye", "port": "web"}}}}),
            r#"{"/app-lifecycle/app/prestopz":{"httpGet":{"path":"/bye","port":8080}}}"#,
        ),
        (
            json!({"lifecycle": {"postStart": {"tcpSocket": {"port": 93}}}}),
            r#"{"/app-lifecycle/app/poststartz":{"tcpSocket":{"port":93}}}"#,
        ),
        (
            json!({
                "livenessProbe": {"httpGet": {"port": 80}}, "readinessProbe": {"tcpSocket": {"port": 81}},
                "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
            }),
            r#"{"/app-health/app/livez":{"httpGet":{"port":80}},"/app-health/app/readyz":{"tcpSocket":{"port":81}}}"#,
        ),
    ] {
        for list in ["containers", "initContainers"] {
            let mut app = json!({"name": "app", "image": "app:1", "ports": ports});
            app.as_object_mut().unwrap().extend(handlers.as_object().unwrap().clone());
            let mut pod = pod_of(&json!({}), &json!([{"name": "other", "image": "o"}]));
            match list {
                "containers" => pod["spec"]["containers"] = json!([app]),
                list => {
                    app["restartPolicy"] = "Always".into();
                    pod["spec"][list] = json!([app]);
                }
            }
            let injected = Fixture::default().pod(&pod);
            assert_eq!(
                variable(&injected, "ISTIO_KUBE_APP_PROBERS"),
                Some(expected),
                "{list} {handlers}"
            );
            for (at, path) in [
                ("/readinessProbe", "/app-health/app/readyz"),
                ("/livenessProbe", "/app-health/app/livez"),
                ("/startupProbe", "/app-health/app/startupz"),
                ("/lifecycle/preStop", "/app-lifecycle/app/prestopz"),
                ("/lifecycle/postStart", "/app-lifecycle/app/poststartz"),
            ] {
                let Some(handler) = container(&injected, "app").pointer(at) else { continue };
                if handler.get("exec").is_some() {
                    continue;
                }
                let get = &handler["httpGet"];
                assert_eq!(
                    (&get["path"], &get["port"]),
                    (&json!(path), &json!(15020)),
                    "{handlers}"
                );
                assert!(handler.get("grpc").is_none() && handler.get("tcpSocket").is_none());
                assert_ne!(get["scheme"], "HTTPS");
                let given = &handlers.pointer(at).unwrap()["httpGet"];
                assert_eq!(get["host"], given["host"]);
                assert_eq!(get["httpHeaders"], given["httpHeaders"]);
            }
        }
    }
}

#[test]
fn other_probes_are_not_rewritten() {
    for handlers in [
        json!({"readinessProbe": {"exec": {"command": ["true"]}}}),
        json!({"readinessProbe": {"httpGet": {"path": "/x", "port": 15020}}}),
        json!({"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}),
        json!({"lifecycle": {"postStart": {"exec": {"command": ["true"]}}}}),
    ] {
        let mut app = json!({"name": "app", "image": "app:1"});
        app.as_object_mut().unwrap().extend(handlers.as_object().unwrap().clone());
        let injected = Fixture::default().pod(&pod_of(&json!({}), &json!([app])));
        assert_eq!(variable(&injected, "ISTIO_KUBE_APP_PROBERS"), None, "{handlers}");
    }
}

/// The kubelet calls the host of a handler, which is not the pod. Istio redirects such a probe to
/// the agent's path and port of that host.
#[test]
fn handlers_of_other_hosts_stay() {
    for action in ["httpGet", "tcpSocket"] {
        for place in ["/readinessProbe", "/livenessProbe", "/startupProbe", "/lifecycle/preStop"] {
            for (host, warns) in [
                ("upstream.example", false),
                ("10.0.0.1", false),
                ("127.0.0.1", true),
                ("::1", true),
                ("localhost", true),
            ] {
                for port in [json!(80), json!("web"), json!("nowhere")] {
                    let handler = json!({action: {"host": host, "port": port}});
                    let mut app = json!({"name": "app", "image": "a", "restartPolicy": "Always",
                        "lifecycle": {}, "ports": [{"name": "web", "containerPort": 80}]});
                    let (parent, field) = place.rsplit_once('/').unwrap();
                    app.pointer_mut(parent).unwrap()[field] = handler.clone();
                    let mut pod = pod_of(&json!({}), &json!([{"name": "other", "image": "o"}]));
                    pod["spec"]["initContainers"] = json!([app]);
                    let injected = Fixture::default().pod(&pod);
                    assert_eq!(container(&injected, "app").pointer(place), Some(&handler));
                    assert_eq!(variable(&injected, "ISTIO_KUBE_APP_PROBERS"), None);
                    let warnings = Fixture::default().injection(&pod).unwrap().warnings;
                    let shown: Vec<_> = warnings.iter().map(Reason::word).collect();
                    let expected = if warns { &["probe_of_the_node"][..] } else { &[] };
                    assert_eq!(shown, expected, "{place}: {handler}");
                }
            }
        }
    }
}

#[test]
fn half_rewritten_probe_is_restored() {
    let original = json!({"host": "h", "path": "/r", "port": 80, "scheme": "HTTPS"});
    let app = json!([{"name": "app", "image": "a", "readinessProbe": {"httpGet": original}}]);
    let mut pod = Fixture::default().pod(&pod_of(&json!({}), &app));
    let get = json!({"host": "h", "path": "/app-health/app/readyz", "port": 15020,
        "scheme": "HTTP"});
    pod["spec"]["containers"][0]["readinessProbe"]["httpGet"] = get;
    let prober = json!({"/app-health/app/readyz": {"httpGet": original}}).to_string();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().unwrap() {
            if container["name"] == "istio-proxy" {
                let env = container["env"].as_array_mut().unwrap();
                env.push(json!({"name": "ISTIO_KUBE_APP_PROBERS", "value": prober}));
            }
        }
    }
    let repaired = Fixture::default().pod(&pod);
    assert_eq!(container(&repaired, "app")["readinessProbe"]["httpGet"], original);
}

#[test]
fn rewrite_probes_annotation_precedes_the_values() {
    let probe = json!([{"name": "app", "image": "a", "readinessProbe": {"httpGet": {"port": 80}}}]);
    for (values, annotation, rewritten) in [
        (true, None, true),
        (false, None, false),
        (true, Some("false"), false),
        (true, Some("0"), false),
        (false, Some("true"), true),
        (false, Some("1"), true),
        (true, Some("never"), true),
        (false, Some("never"), false),
        (false, Some(""), false),
    ] {
        let values = json!({"sidecarInjectorWebhook": {"rewriteAppHTTPProbe": values}});
        let annotations = annotation
            .map_or(json!({}), |value| json!({"sidecar.istio.io/rewriteAppHTTPProbers": value}));
        let injected = Fixture::with_values(values).pod(&pod_of(&annotations, &probe));
        let port = if rewritten { 15020 } else { 80 };
        assert_eq!(container(&injected, "app")["readinessProbe"]["httpGet"]["port"], port);
        assert_eq!(variable(&injected, "ISTIO_KUBE_APP_PROBERS").is_some(), rewritten);
    }
}

#[test]
fn probes_use_the_status_port_of_the_pod() {
    let probe = json!([{"name": "app", "image": "a", "readinessProbe": {"httpGet": {"port": 80}}}]);
    let seen = |fixture: &Fixture, annotations: Value| {
        let injected = fixture.pod(&pod_of(&annotations, &probe));
        container(&injected, "app")["readinessProbe"]["httpGet"]["port"].clone()
    };
    let own = json!({"status.sidecar.istio.io/port": "123"});
    assert_eq!(seen(&Fixture::default(), own.clone()), 123);
    let mesh = Fixture::with_mesh(json!({"defaultConfig": {"statusPort": 15099}}));
    assert_eq!(seen(&mesh, json!({})), 15099);
    assert_eq!(seen(&mesh, own), 123);
}

/// In an earlier version the agent did not get the application's probe of this port, and answered
/// 404.
#[test]
fn probe_of_the_pods_status_port_goes_to_the_agent() {
    let probe = json!([{"name": "app", "image": "a",
        "readinessProbe": {"httpGet": {"path": "/healthz/ready", "port": 15022}}}]);
    let own = json!({"status.sidecar.istio.io/port": "15022"});
    let injected = Fixture::default().pod(&pod_of(&own, &probe));
    assert_eq!(
        variable(&injected, "ISTIO_KUBE_APP_PROBERS"),
        Some(r#"{"/app-health/app/readyz":{"httpGet":{"path":"/healthz/ready","port":15022}}}"#)
    );
}

#[test]
fn probe_of_the_mesh_status_port_gets_a_warning() {
    let probe = |path: &str| json!([{"name": "app", "image": "a", "livenessProbe": {"httpGet": {"path": path, "port": 15020}}}]);
    for (path, warns) in [("/x", true), ("/app-health/app/livez", false)] {
        let injection = Fixture::default().injection(&pod_of(&json!({}), &probe(path))).unwrap();
        let words: Vec<_> = injection.warnings.iter().map(Reason::word).collect();
        assert_eq!(words.contains(&"probe_of_the_agent"), warns, "{path}: {words:?}");
    }
}

/// In an earlier version the probe was rewritten, and the API server accepted the pod. It must
/// reject the port.
#[test]
fn probe_without_port_is_not_changed() {
    for (port, problem) in [
        (json!(0), "has port 0, which is not in 1-65535"),
        (json!(65536), "has port 65536, which is not in 1-65535"),
        (json!(-1), "has port -1, which is not in 1-65535"),
        (json!(1e20), "has a port that is not in 1-65535"),
        (json!("0"), "names port \"0\", which the container does not have"),
        (json!(null), "has port null, which is not in 1-65535"),
    ] {
        let probe =
            json!([{"name": "app", "image": "a", "readinessProbe": {"httpGet": {"port": port}}}]);
        let injection = Fixture::default().injection(&pod_of(&json!({}), &probe)).unwrap();
        let kept = &container(&injection.pod, "app")["readinessProbe"]["httpGet"]["port"];
        assert_eq!(kept, &port);
        let warning = &injection.warnings[0];
        assert_eq!(warning.word(), "probe_port_unknown");
        assert!(warning.to_string().contains(problem), "{warning}");
    }
}
