//! User-written pods: effects of each kind of setting on the proxy and its capture.

use serde_json::{Value, json};

use crate::fixture::{Fixture, container, flag, names, pod, pod_of, variable};

#[test]
fn traffic_annotations_precede_the_values() {
    let values = json!({"global": {"proxy": {
        "includeIPRanges": "127.0.0.1/24,10.96.0.1/24", "excludeIPRanges": "10.96.0.2/24",
        "excludeInboundPorts": "4,5,6", "includeOutboundPorts": "11", "excludeOutboundPorts": "7,8,9",
    }}});
    let fixture = Fixture::with_values(values);
    let key = |name: &str| format!("traffic.sidecar.istio.io/{name}");
    let own = json!({
        key("includeOutboundIPRanges"): "", key("excludeOutboundIPRanges"): "10.0.0.0/8",
        key("includeInboundPorts"): "", key("excludeInboundPorts"): "1",
        key("includeOutboundPorts"): "", key("excludeOutboundPorts"): "",
        key("excludeInterfaces"): "eth9", key("kubevirtInterfaces"): "net1",
    });
    for (annotations, expected) in [
        (
            json!({}),
            [
                ("-i", Some("127.0.0.1/24,10.96.0.1/24")),
                ("-x", Some("10.96.0.2/24")),
                ("-b", Some("*")),
                ("-d", Some("15090,15021,4,5,6,15020")),
                ("-q", Some("11")),
                ("-o", Some("7,8,9")),
                ("-c", None),
                ("-k", None),
            ],
        ),
        (
            own,
            [
                ("-i", Some("")),
                ("-x", Some("10.0.0.0/8")),
                ("-b", Some("")),
                ("-d", Some("15090,15021,1,15020")),
                ("-q", Some("")),
                ("-o", Some("")),
                ("-c", Some("eth9")),
                ("-k", Some("net1")),
            ],
        ),
    ] {
        let injected = fixture.pod(&pod(&annotations));
        for (name, value) in expected {
            assert_eq!(flag(&injected, "istio-init", name), value, "{name}: {annotations}");
        }
    }
}

#[test]
fn hold_application_puts_the_proxy_first() {
    let hold = |on: bool| json!({"holdApplicationUntilProxyStarts": on});
    let annotation = |on: bool| json!({"proxy.istio.io/config": hold(on).to_string()});
    for (values, mesh, annotations, first) in [
        (json!({}), json!({}), json!({}), false),
        (json!({"global": {"proxy": hold(true)}}), json!({}), json!({}), true),
        (json!({}), json!({"defaultConfig": hold(true)}), json!({}), true),
        (json!({}), json!({}), annotation(true), true),
        (json!({}), json!({"defaultConfig": hold(true)}), annotation(false), false),
        (json!({"global": {"proxy": hold(true)}}), json!({}), annotation(false), true),
    ] {
        let mut fixture = Fixture { values, mesh, ..Fixture::default() };
        fixture.process.native_sidecars = false;
        let injected = fixture.pod(&pod(&annotations));
        let expected = if first { ["istio-proxy", "app"] } else { ["app", "istio-proxy"] };
        assert_eq!(names(&injected, "containers"), expected, "{fixture:?} {annotations}");
        let wait = container(&injected, "istio-proxy")["lifecycle"]["postStart"].is_object();
        assert_eq!(wait, first);
    }
}

#[test]
fn init_container_order_depends_on_the_mode() {
    let mut pod = pod(&json!({}));
    pod["spec"]["initContainers"] =
        json!([{"name": "one", "image": "i"}, {"name": "two", "image": "i"}]);
    let mut fixture = Fixture::default();
    let native = ["istio-init", "istio-proxy", "one", "two"];
    assert_eq!(names(&fixture.pod(&pod), "initContainers"), native);
    fixture.process.native_sidecars = false;
    assert_eq!(names(&fixture.pod(&pod), "initContainers"), ["one", "two", "istio-init"]);
    fixture.values = json!({"pilot": {"cni": {"enabled": true}}});
    assert_eq!(names(&fixture.pod(&pod), "initContainers"), ["istio-validation", "one", "two"]);
}

#[test]
fn pod_with_only_the_proxy_has_no_default_container() {
    let alone = pod_of(&json!({}), &json!([{"name": "istio-proxy", "image": "auto"}]));
    for native in [true, false] {
        let mut fixture = Fixture::default();
        fixture.process.native_sidecars = native;
        let injected = fixture.pod(&alone);
        let key = "kubectl.kubernetes.io/default-container";
        assert_eq!(injected["metadata"]["annotations"][key], Value::Null);
        assert_eq!(variable(&injected, "ISTIO_META_APP_CONTAINERS").unwrap_or_default(), "");
    }
}

#[test]
fn user_supplied_arguments_replace_the_injected_ones() {
    let own = json!([
        {"name": "istio-proxy", "image": "auto", "args": ["proxy", "sidecar", "--mine"], "env": [{"name": "A", "value": "b"}]},
        {"name": "app", "image": "app:1"},
    ]);
    let injected = Fixture::default().pod(&pod_of(&json!({}), &own));
    let proxy = container(&injected, "istio-proxy");
    assert_eq!(proxy["args"], json!(["proxy", "sidecar", "--mine"]));
    assert_eq!(proxy["image"], "docker.io/istio/proxyv2:1.28.0");
    assert_eq!(variable(&injected, "A"), Some("b"));
    assert!(injected["metadata"]["annotations"]["proxy.istio.io/overrides"].is_string());
}

#[test]
fn capture_excludes_the_user_supplied_user() {
    let with = |annotations: Value| {
        pod_of(
            &annotations,
            &json!([
                {"name": "istio-proxy", "image": "auto", "securityContext": {"runAsUser": 1234, "runAsGroup": 5678}},
                {"name": "app", "image": "app:1"},
            ]),
        )
    };
    let ids = |injected: &Value, name: &str| {
        let security = &container(injected, name)["securityContext"];
        (security["runAsUser"].clone(), security["runAsGroup"].clone())
    };
    let injected = Fixture::default().pod(&with(json!({})));
    assert_eq!(flag(&injected, "istio-init", "-u"), Some("1234"));
    assert_eq!(ids(&injected, "istio-proxy"), (json!(1234), json!(5678)));
    assert_eq!(ids(&injected, "istio-init"), (json!(0), json!(0)));
    let cni = Fixture::with_values(json!({"pilot": {"cni": {"enabled": true}}}));
    let injected = cni.pod(&with(json!({})));
    assert_eq!(flag(&injected, "istio-validation", "-u"), Some("1234"));
    assert_eq!(ids(&injected, "istio-validation"), (json!(1234), json!(5678)));
    let tproxy = json!({"sidecar.istio.io/interceptionMode": "TPROXY"});
    let injected = Fixture::default().pod(&with(tproxy));
    assert_eq!(ids(&injected, "istio-proxy"), (json!(0), json!(5678)));
}

#[test]
fn pull_secrets_and_policy_come_from_the_values() {
    let values =
        json!({"global": {"imagePullSecrets": ["one", "two"], "imagePullPolicy": "Always"}});
    let mut pod = pod(&json!({}));
    pod["spec"]["imagePullSecrets"] = json!([{"name": "own"}, {"name": "two"}]);
    let injected = Fixture::with_values(values).pod(&pod);
    let mut secrets: Vec<_> = injected["spec"]["imagePullSecrets"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|secret| secret["name"].as_str())
        .collect();
    secrets.sort_unstable();
    assert_eq!(secrets, ["one", "own", "two"]);
    for name in ["istio-init", "istio-proxy"] {
        assert_eq!(container(&injected, name)["imagePullPolicy"], "Always");
    }
}

#[test]
fn mutual_tls_certificates_name_the_service_account() {
    let values = json!({"global": {"mountMtlsCerts": true}});
    for (account, secret) in [(None, "istio.default"), (Some("bookinfo"), "istio.bookinfo")] {
        let mut pod = pod(&json!({}));
        if let Some(account) = account {
            pod["spec"]["serviceAccountName"] = account.into();
        }
        let injected = Fixture::with_values(values.clone()).pod(&pod);
        let volumes = injected["spec"]["volumes"].as_array().unwrap();
        let found = volumes.iter().find(|volume| volume["name"] == "istio-certs").unwrap();
        assert_eq!(found["secret"]["secretName"], secret);
    }
}

#[test]
fn proxy_config_variable_has_changed_fields_only() {
    for (config, expected) in [
        (json!({}), "{}"),
        (json!({"statusPort": 15020, "drainDuration": "45s", "concurrency": null}), "{}"),
        (
            json!({"configPath": "/foo/bar", "drainDuration": "7s", "proxyMetadata": {"foo": "barr"}}),
            r#"{"configPath":"/foo/bar","drainDuration":"7s","proxyMetadata":{"foo":"barr"}}"#,
        ),
        (
            json!({"drainDuration": "23s", "terminationDrainDuration": "65s"}),
            r#"{"drainDuration":"23s","terminationDrainDuration":"65s"}"#,
        ),
        (
            json!({"terminationDrainDuration": "1m5s", "fileFlushInterval": "250ms"}),
            r#"{"terminationDrainDuration":"65s","fileFlushInterval":"0.250s"}"#,
        ),
        (
            json!({"privateKeyProvider": {"cryptomb": {"pollDelay": "10ms"}}}),
            r#"{"privateKeyProvider":{"cryptomb":{"pollDelay":"0.010s"}}}"#,
        ),
        (json!({"concurrency": 0}), r#"{"concurrency":0}"#),
        (json!({"interceptionMode": "TPROXY"}), r#"{"interceptionMode":"TPROXY"}"#),
    ] {
        let injected = Fixture::with_mesh(json!({"defaultConfig": config})).pod(&pod(&json!({})));
        let config = variable(&injected, "PROXY_CONFIG").unwrap_or_default();
        assert_eq!(config.trim_end(), expected);
    }
}

#[test]
fn status_port_zero_removes_the_proxy_probes() {
    let injected = Fixture::default().pod(&pod(&json!({"status.sidecar.istio.io/port": "0"})));
    let proxy = container(&injected, "istio-proxy");
    assert_eq!((&proxy["readinessProbe"], &proxy["startupProbe"]), (&Value::Null, &Value::Null));
    assert_eq!(flag(&injected, "istio-init", "-d"), Some("15090,15021"));
    let own = json!({
        "status.sidecar.istio.io/port": "123",
        "readiness.status.sidecar.istio.io/initialDelaySeconds": "100",
        "readiness.status.sidecar.istio.io/periodSeconds": "200",
        "readiness.status.sidecar.istio.io/failureThreshold": "300",
        "readiness.status.sidecar.istio.io/applicationPorts": "1,2,3",
    });
    let injected = Fixture::default().pod(&pod(&own));
    let probe = &container(&injected, "istio-proxy")["readinessProbe"];
    assert_eq!(probe["initialDelaySeconds"], 100);
    assert_eq!((&probe["periodSeconds"], &probe["failureThreshold"]), (&json!(200), &json!(300)));
    assert_eq!(flag(&injected, "istio-init", "-d"), Some("15090,15021,123"));
}
