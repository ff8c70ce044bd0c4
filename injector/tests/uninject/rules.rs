//! Single rules, each with the fields that it is about.

use documents::yaml;
use injector::uninject::{Origin, uninject};
use reason::Reason;
use serde_json::{Value, json};

/// Returns the pod before injection, and the messages of the doubts, except about the parts of the
/// status that `spec` leaves out.
fn restored(metadata: &str, spec: &str, workload: &Value) -> (Value, Vec<String>) {
    let mut pod = json!({
        "metadata": yaml::parse(metadata).unwrap(),
        "spec": yaml::parse(spec).unwrap(),
    });
    let annotations = &mut pod["metadata"]["annotations"];
    if annotations.get("sidecar.istio.io/status").is_none() {
        annotations["sidecar.istio.io/status"] = STATUS.into();
    }
    let uninjection = uninject(&pod, &Origin::from_workload("web", workload)).unwrap().unwrap();
    let doubts = uninjection.doubts.iter().filter(|doubt| doubt.word() != "absent_part");
    (uninjection.pod, doubts.map(|doubt| doubt.message().to_owned()).collect())
}

#[test]
fn label_of_the_selector_is_kept() {
    let labels =
        "{labels: {service.istio.io/canonical-name: web, security.istio.io/tlsMode: istio}}";
    for selector in [
        json!({"matchLabels": {"service.istio.io/canonical-name": "web"}}),
        json!({"matchExpressions": [{"key": "service.istio.io/canonical-name", "operator": "Exists"}]}),
        json!({"service.istio.io/canonical-name": "web"}),
    ] {
        let (pod, doubts) = restored(labels, "{}", &json!({"spec": {"selector": selector}}));
        let kept = json!({"labels": {"service.istio.io/canonical-name": "web"}});
        assert_eq!((&pod["metadata"], doubts), (&kept, Vec::new()));
    }
}

#[test]
fn label_that_differs_from_the_injected_one_is_kept() {
    let labels = "{labels: {security.istio.io/tlsMode: disabled, service.istio.io/canonical-name: shop, \
                  service.istio.io/canonical-revision: v2, topology.istio.io/network: n}}";
    let (pod, doubts) = restored(labels, "{containers: [{name: istio-proxy}]}", &json!({}));
    assert_eq!(pod["metadata"]["labels"].as_object().unwrap().len(), 4);
    assert_eq!(
        doubts,
        ["the label service.istio.io/canonical-name is kept; the pod does not show whether \
          injection wrote it"]
    );
}

#[test]
fn label_of_the_workload_itself_is_kept_with_a_doubt() {
    let labels = "{labels: {service.istio.io/canonical-revision: latest}}";
    let workload =
        json!({"metadata": {"labels": {"service.istio.io/canonical-revision": "latest"}}});
    let (pod, doubts) = restored(labels, "{}", &workload);
    assert_eq!(pod["metadata"]["labels"].as_object().unwrap().len(), 1);
    assert_eq!(doubts.len(), 1, "{doubts:?}");
}

#[test]
fn handler_without_a_record_stays_with_a_doubt() {
    let spec = "{containers: [{name: web, lifecycle: {preStop: {httpGet: \
                {path: /app-lifecycle/web/prestopz, port: 15020}}}}, {name: istio-proxy}]}";
    let (pod, doubts) = restored("{}", spec, &json!({}));
    assert_eq!(pod["spec"]["containers"][0]["lifecycle"]["preStop"]["httpGet"]["port"], 15020);
    assert_eq!(
        doubts,
        ["spec.containers[web].lifecycle.preStop still calls the agent: the environment of \
          istio-proxy has no handler /app-lifecycle/web/prestopz"]
    );
}

#[test]
fn invalid_records_in_the_environment_are_named() {
    let metadata = "{annotations: {prometheus.io/port: '15020', prometheus.io/scrape: 'true', \
                    prometheus.io/path: /stats/prometheus}}";
    let spec = "{containers: [{name: web, readinessProbe: {httpGet: \
                {path: /app-health/web/readyz, port: 15020}}}, {name: istio-proxy, env: [\
                {name: ISTIO_KUBE_APP_PROBERS, value: '{\"/app-health'}, \
                {name: ISTIO_PROMETHEUS_ANNOTATIONS, value: none}]}]}";
    let (_, doubts) = restored(metadata, spec, &json!({}));
    assert_eq!(
        doubts,
        [
            "spec.containers[web].readinessProbe still calls the agent: variable \
             ISTIO_KUBE_APP_PROBERS of istio-proxy is not the JSON of injection",
            "prometheus.io/port, prometheus.io/path and prometheus.io/scrape are removed: variable \
             ISTIO_PROMETHEUS_ANNOTATIONS of istio-proxy is not the JSON of injection"
        ]
    );
}

#[test]
fn status_and_pod_that_differ_are_told() {
    let pod = json!({
        "metadata": {"annotations": {"sidecar.istio.io/status": STATUS}},
        "spec": {
            "containers": [{"name": "istio-proxy", "volumeMounts": [{"name": "istio-token"}]}],
            "volumes": [{"name": "istio-data", "emptyDir": {}}, {"name": "istio-token",
                "projected": {"sources": [{"serviceAccountToken": {"path": "istio-token"}}]}},
                {"name": "istio-podinfo", "secret": {}}],
        },
    });
    let uninjection = uninject(&pod, &Origin::from_pod(&pod)).unwrap().unwrap();
    let doubts: Vec<_> = uninjection.doubts.iter().map(ToString::to_string).collect();
    assert_eq!(
        doubts,
        [
            "annotation sidecar.istio.io/status names the volume istio-certs, which is not there \
             (absent_part); hint: check that the annotation belongs to this pod",
            "volume istio-token, which the annotation sidecar.istio.io/status does not name, is \
             kept; the pod does not show whether injection wrote it (may_be_injected); hint: if \
             the field is not yours, remove it"
        ]
    );
}

#[test]
fn handlers_come_back_with_their_own_fields() {
    let spec = "
        containers:
        - name: web
          readinessProbe:
            httpGet: {path: /app-health/web/readyz, port: 15020, scheme: HTTP, host: h}
            timeoutSeconds: 2
          livenessProbe: {httpGet: {path: /app-health/web/livez, port: 15020}}
          startupProbe: {httpGet: {path: /app-health/other/startupz, port: 15020}}
        - name: istio-proxy
          env:
          - name: ISTIO_KUBE_APP_PROBERS
            value: '{\"/app-health/web/readyz\":{\"httpGet\":{\"path\":\"/r\",\"port\":80,\"scheme\":\"HTTPS\",\"host\":\"h\"},\"timeoutSeconds\":2},\"/app-health/web/livez\":{\"grpc\":{\"port\":81,\"service\":null}},\"/app-health/other/startupz\":{\"tcpSocket\":{\"port\":1}}}'";
    let (pod, doubts) = restored("{}", spec, &json!({}));
    let expected = json!({"containers": [{
        "name": "web",
        "readinessProbe": {
            "httpGet": {"path": "/r", "port": 80, "scheme": "HTTPS", "host": "h"},
            "timeoutSeconds": 2,
        },
        "livenessProbe": {"grpc": {"port": 81}},
        "startupProbe": {"httpGet": {"path": "/app-health/other/startupz", "port": 15020}},
    }]});
    assert_eq!((&pod["spec"], doubts), (&expected, Vec::new()));
}

#[test]
fn scrape_targets_come_back_with_a_doubt() {
    let metadata = "{annotations: {prometheus.io/scrape: 'true', prometheus.io/port: '15020', \
                    prometheus.io/path: /stats/prometheus}}";
    let spec = "{containers: [{name: istio-proxy, env: [{name: ISTIO_PROMETHEUS_ANNOTATIONS, \
                value: '{\"scrape\":\"true\",\"path\":\"/a\",\"port\":\"8080\",\"targets\":[{\"port\":\"8080\",\
                \"path\":\"/a\"},{\"port\":\"9090\",\"path\":\"/metrics\"}]}'}]}]}";
    let (pod, doubts) = restored(metadata, spec, &json!({}));
    let expected = json!({"annotations": {"prometheus.io/scrape": "true",
        "prometheus.istio.io/scrape-targets": "8080:/a,9090:/metrics"}});
    assert_eq!((&pod["metadata"], doubts.len()), (&expected, 1));
}

#[test]
fn scheme_of_metrics_comes_back() {
    let metadata = "{annotations: {prometheus.io/scrape: 'true', prometheus.io/port: '15020', \
                    prometheus.io/path: /stats/prometheus}}";
    let spec = "{containers: [{name: istio-proxy, env: [{name: ISTIO_PROMETHEUS_ANNOTATIONS, \
                value: '{\"scrape\":\"\",\"path\":\"\",\"port\":\"8443\",\"scheme\":\"https\"}'}]}]}";
    let (pod, doubts) = restored(metadata, spec, &json!({}));
    let expected =
        json!({"annotations": {"prometheus.io/port": "8443", "prometheus.io/scheme": "https"}});
    assert_eq!((&pod["metadata"], doubts.len()), (&expected, 0), "{doubts:?}");
}

#[test]
fn pod_fields_in_doubt_are_removed_with_a_warning() {
    let metadata = "{annotations: {inject.istio.io/templates: gateway}}";
    let spec = "{dnsConfig: {searches: [own, web.global, global]}, imagePullSecrets: [{name: own}, \
                {name: mesh}], securityContext: {fsGroup: 1337, sysctls: [{name: \
                net.ipv4.ip_unprivileged_port_start, value: '0'}]}}";
    let (pod, doubts) = restored(metadata, spec, &json!({}));
    let expected =
        json!({"dnsConfig": {"searches": ["own"]}, "imagePullSecrets": [{"name": "own"}]});
    assert_eq!((&pod["spec"], doubts.len()), (&expected, 3), "{doubts:?}");
}

#[test]
fn empty_security_context_of_the_user_stays() {
    let (pod, doubts) = restored("{}", "{securityContext: {}}", &json!({}));
    assert_eq!((&pod["spec"]["securityContext"], doubts.len()), (&json!({}), 0));
}

#[test]
fn search_domain_of_another_global_zone_stays() {
    let (pod, doubts) = restored("{}", "{dnsConfig: {searches: [eu.global]}}", &json!({}));
    let searches = &pod["spec"]["dnsConfig"]["searches"];
    assert_eq!((searches, doubts.len()), (&json!(["eu.global"]), 0));
}

#[test]
fn own_metrics_annotations_stay_without_merging() {
    let metadata = "{annotations: {prometheus.istio.io/merge-metrics: 'false', \
                    prometheus.io/port: '8002', prometheus.io/path: /stats/prometheus, \
                    prometheus.io/scrape: 'true'}}";
    let (pod, doubts) = restored(metadata, "{}", &json!({}));
    assert_eq!(pod["metadata"]["annotations"]["prometheus.io/port"], "8002");
    assert_eq!(doubts.len(), 0, "{doubts:?}");
}

#[test]
fn mounted_volume_of_an_injected_name_is_kept_with_a_doubt() {
    let spec = "{containers: [{name: web, volumeMounts: [{name: istio-certs}]}, {name: istio-proxy}], \
                volumes: [{name: istio-certs, secret: {}}, {name: istio-data, emptyDir: {}}]}";
    let (pod, doubts) = restored("{}", spec, &json!({}));
    assert_eq!(pod["spec"]["volumes"], json!([{"name": "istio-certs", "secret": {}}]));
    assert_eq!(doubts.len(), 1, "{doubts:?}");
}

#[test]
fn volume_of_an_injected_name_stays_if_no_template_gives_it_these_fields() {
    let status = |name: &str| {
        let status = json!({"containers": ["istio-proxy"], "volumes": [name]}).to_string();
        json!({"annotations": {"sidecar.istio.io/status": status}}).to_string()
    };
    for (volume, is_own) in [
        ("{name: workload-socket, csi: {driver: csi.spiffe.io, readOnly: true}}", true),
        ("{name: workload-socket, hostPath: {path: /run}}", true),
        ("{name: workload-socket}", false),
        ("{name: credential-socket, secret: {secretName: s}}", true),
        ("{name: istiod-ca-cert, configMap: {name: other}}", true),
        ("{name: istiod-ca-cert, configMap: {name: istio-ca-root-cert, defaultMode: 256}}", true),
        ("{name: istiod-ca-cert, configMap: {name: istio-ca-root-cert, defaultMode: 420}}", false),
        ("{name: istio-ca-crl, configMap: {name: other, optional: true}}", true),
        ("{name: istio-envoy, emptyDir: {medium: Memory, sizeLimit: 1Gi}}", true),
        ("{name: istio-data, emptyDir: {medium: Memory}}", true),
        ("{name: istio-data, emptyDir: {}}", false),
        ("{name: istio-podinfo, downwardAPI: {items: [{path: labels}, {path: zone}]}}", true),
        ("{name: istio-token, projected: {sources: [{secret: {name: s}}]}}", true),
        ("{name: of-a-template, emptyDir: {}}", false),
    ] {
        let name = yaml::parse(volume).unwrap()["name"].as_str().unwrap().to_owned();
        let spec = format!("{{containers: [{{name: web}}], volumes: [{volume}]}}");
        let (pod, doubts) = restored(&status(&name), &spec, &json!({}));
        assert_eq!(pod["spec"]["volumes"].is_array(), is_own, "{volume}");
        assert_eq!(doubts.len(), usize::from(is_own), "{volume}: {doubts:?}");
    }
}

#[test]
fn own_init_containers_of_sidecar_names_have_no_recorded_position() {
    let metadata = r#"{annotations: {sidecar.istio.io/status: '{"initContainers":["istio-init","istio-proxy"]}'}}"#;
    let spec = "{initContainers: [{name: istio-validation}, {name: first}, {name: istio-init}, {name: istio-proxy}]}";
    let (pod, doubts) = restored(metadata, spec, &json!({}));
    let names = json!([{"name": "istio-validation"}, {"name": "first"}]);
    assert_eq!(pod["spec"]["initContainers"], names);
    let about = "container istio-validation is put back into spec.initContainers; its position";
    assert!(doubts.iter().any(|doubt| doubt.contains(about)), "{doubts:?}");
}

#[test]
fn init_container_of_the_user_beside_a_gateway_stays() {
    let spec =
        "{containers: [{name: istio-proxy}], initContainers: [{name: istio-init, image: mine}]}";
    let metadata = "{annotations: {inject.istio.io/templates: gateway}}";
    let (pod, _) = restored(metadata, spec, &json!({}));
    assert_eq!(pod["spec"]["initContainers"], json!([{"name": "istio-init", "image": "mine"}]));
}

#[test]
fn handler_in_the_record_of_a_second_injection_comes_back() {
    let probe = json!({"httpGet": {"path": "/app-health/web/readyz", "port": 15020}});
    let overrides = json!({"containers": [{"name": "web", "image": "a", "readinessProbe": probe}]});
    let status = json!({"containers": ["istio-proxy", "web"]});
    let original = r#"{"/app-health/web/readyz":{"httpGet":{"path":"/ready","port":8080}}}"#;
    let pod = json!({
        "metadata": {"annotations": {
            "sidecar.istio.io/status": status.to_string(),
            "proxy.istio.io/overrides": overrides.to_string(),
        }},
        "spec": {"containers": [
            {"name": "web", "image": "a", "readinessProbe": probe},
            {"name": "istio-proxy", "env": [{"name": "ISTIO_KUBE_APP_PROBERS", "value": original}]},
        ]},
    });
    let uninjection = uninject(&pod, &Origin::from_pod(&pod)).unwrap().unwrap();
    let restored = &uninjection.pod["spec"]["containers"][0]["readinessProbe"];
    assert_eq!(restored, &json!({"httpGet": {"path": "/ready", "port": 8080}}));
}

#[test]
fn capture_settings_of_the_user_are_kept_with_doubts() {
    let status = STATUS.replace("null,\"containers\"", "[\"istio-validation\"],\"containers\"");
    let metadata = format!(
        "{{annotations: {{sidecar.istio.io/status: '{status}', k8s.v1.cni.cncf.io/networks: \
         'a, default/istio-cni', sidecar.istio.io/interceptionMode: TPROXY, \
         traffic.sidecar.istio.io/includeInboundPorts: '*', \
         traffic.sidecar.istio.io/excludeInboundPorts: '9090,15020'}}}}"
    );
    let (pod, doubts) = restored(&metadata, "{}", &json!({}));
    let expected = json!({"annotations": {"k8s.v1.cni.cncf.io/networks": "a",
        "sidecar.istio.io/interceptionMode": "TPROXY",
        "traffic.sidecar.istio.io/excludeInboundPorts": "9090"}});
    assert_eq!((&pod["metadata"], doubts.len()), (&expected, 2), "{doubts:?}");
}

#[test]
fn record_of_a_long_environment_is_completed_from_the_pod() {
    let env: Vec<_> = (0..200).map(|n| json!({"name": format!("V{n}"), "value": "x"})).collect();
    let recorded = r#"{"containers":[{"name":"web","image":"w","resources":{},"env":[{"name":"V7","value":"own"}]}]}"#;
    let status = STATUS.replace("\"istio-proxy\"", "\"web\"");
    let pod = json!({
        "metadata": {"annotations": {"sidecar.istio.io/status": status, "proxy.istio.io/overrides": recorded}},
        "spec": {"containers": [{"name": "web", "image": "w", "env": env}]},
    });
    let back = uninject(&pod, &Origin::from_pod(&pod)).unwrap().unwrap();
    let env = back.pod["spec"]["containers"][0]["env"].as_array().unwrap();
    assert_eq!((env.len(), &env[7]["value"], &env[8]["value"]), (200, &json!("own"), &json!("x")));
    let doubts: Vec<_> = back.doubts.iter().map(Reason::word).collect();
    assert_eq!(doubts, ["absent_part", "absent_part", "may_be_injected"]);
}

#[test]
fn invalid_status_is_an_error() {
    let pod = json!({"metadata": {"annotations": {"sidecar.istio.io/status": "injected"}}});
    let error = uninject(&pod, &Origin::from_pod(&pod)).unwrap_err();
    insta::assert_snapshot!(error, @r#"annotation sidecar.istio.io/status has the invalid value "injected": expected the JSON object that injection writes; hint: restore the annotation, or remove the sidecar by hand"#);
}

const STATUS: &str = r#"{"initContainers":null,"containers":["istio-proxy"],"volumes":["istio-data","istio-certs"],"imagePullSecrets":["mesh"],"revision":"default"}"#;
