//! Merging of the application's metrics with the proxy's.

use injector::inject::InjectionOutcome;
use injector::inject::policy::Rules;
use serde_json::{Value, json};

use crate::fixture::{Fixture, pod, variable};

#[test]
fn prometheus_annotations_point_to_the_agent() {
    let merged = ("15020", "/stats/prometheus", "true");
    for (annotations, expected, expected_env) in [
        (json!({}), Some(merged), None),
        (
            json!({"prometheus.io/scrape": "true"}),
            Some(merged),
            Some(json!({"scrape": "true", "path": "", "port": ""})),
        ),
        (
            json!({"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "prometheus.io/path": "/m"}),
            Some(merged),
            Some(json!({"scrape": "true", "path": "/m", "port": "8080"})),
        ),
        // The field is not Istio's, whose agent would fail to read this port.
        (
            json!({"prometheus.io/port": "8443", "prometheus_io/scheme": "HTTPS"}),
            Some(merged),
            Some(json!({"scrape": "", "path": "", "port": "8443", "scheme": "https"})),
        ),
        (json!({"prometheus.io/scrape": "false"}), None, None),
        (json!({"prometheus.istio.io/merge-metrics": "false"}), None, None),
        (json!({"prometheus.istio.io/merge-metrics": "true"}), Some(merged), None),
        (
            json!({"prometheus-io/port": "80"}),
            Some(merged),
            Some(json!({"scrape": "", "path": "", "port": "80"})),
        ),
        (
            json!({"prometheus.istio.io/scrape-targets": "80:/a,81"}),
            Some(merged),
            Some(json!({"scrape": "", "path": "/a", "port": "80", "targets": [
                {"port": "80", "path": "/a"}, {"port": "81", "path": "/metrics"}]})),
        ),
        (
            json!({"prometheus-istio.io/scrape-targets": "80"}),
            Some(merged),
            Some(json!({"scrape": "", "path": "/metrics", "port": "80", "targets": [
                {"port": "80", "path": "/metrics"}]})),
        ),
        (
            json!({"prometheus.istio.io/scrape-targets": " 80 : /a "}),
            Some(merged),
            Some(json!({"scrape": "", "path": "/a", "port": "80", "targets": [
                {"port": "80", "path": "/a"}]})),
        ),
        (json!({"prometheus.istio.io/scrape-targets": ":/a"}), Some(merged), None),
        (json!({"prometheus.istio.io/scrape-targets": "x,:/a"}), Some(merged), None),
    ] {
        let injected = Fixture::default().pod(&pod(&annotations));
        let found = &injected["metadata"]["annotations"];
        if let Some((port, path, scrape)) = expected {
            let at = |key: &str| found[format!("prometheus.io/{key}")].as_str();
            assert_eq!(
                (at("port"), at("path"), at("scrape")),
                (Some(port), Some(path), Some(scrape))
            );
            let left = found.as_object().unwrap().keys();
            let left: Vec<_> =
                left.filter(|key| key.contains("prometheus") && !key.contains("merge")).collect();
            let mut written = vec!["prometheus.io/path", "prometheus.io/port"];
            if annotations["prometheus_io/scheme"].is_string() {
                assert_eq!(at("scheme"), Some("http"), "{annotations}");
                written.push("prometheus.io/scheme");
            }
            written.push("prometheus.io/scrape");
            assert_eq!(left, written, "{annotations}");
        } else {
            for key in ["port", "path"] {
                assert_eq!(found[format!("prometheus.io/{key}")], Value::Null, "{annotations}");
            }
        }
        let env = variable(&injected, "ISTIO_PROMETHEUS_ANNOTATIONS");
        let env = env.map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(env, expected_env, "{annotations}");
    }
}

#[test]
fn scrape_targets_stay_without_merged_metrics() {
    const TARGETS: &str = "prometheus.istio.io/scrape-targets";
    for (key, value) in [
        ("prometheus.io/scrape", "false"),
        ("prometheus.istio.io/merge-metrics", "false"),
        ("prometheus.io/port", "15020"),
    ] {
        let injected = Fixture::default().pod(&pod(&json!({TARGETS: "80:/a", key: value})));
        assert_eq!(injected["metadata"]["annotations"][TARGETS], "80:/a", "{key}");
    }
}

/// A template may set the targets, and then sets them in each injection.
#[test]
fn scrape_targets_of_a_template_are_merged_once() {
    for targets in ["8080:/m,9090", ":/unreadable"] {
        for (port, proxy) in [("", true), ("prometheus.io/port: '7070'", true), ("", false)] {
            let proxy =
                if proxy { "spec: {containers: [{name: istio-proxy, image: p}]}" } else { "" };
            let template = format!(
                "metadata:\n  annotations:\n    prometheus.istio.io/scrape-targets: '{targets}'\n    {port}\n{proxy}\n"
            );
            let config =
                json!({"policy": "enabled", "templates": {"sidecar": template}}).to_string();
            let injected = |pod: &Value| {
                let ran = Fixture::default().run(&config, &json!({}), pod, Rules::Admission);
                let Ok(InjectionOutcome::Injected(injection)) = ran else { panic!("{ran:?}") };
                injection.pod
            };
            let first = injected(&pod(&json!({})));
            let left = &first["metadata"]["annotations"]["prometheus.istio.io/scrape-targets"];
            assert_eq!(*left, Value::Null, "{template}");
            assert_eq!(injected(&first), first, "{template}");
        }
    }
}

#[test]
fn merge_metrics_annotation_precedes_the_mesh() {
    for (mesh, annotation, on) in [
        (json!({}), None, true),
        (json!({"enablePrometheusMerge": false}), None, false),
        (json!({"enablePrometheusMerge": true}), Some("false"), false),
        (json!({"enablePrometheusMerge": false}), Some("true"), true),
        (json!({"enablePrometheusMerge": true}), Some("0"), false),
    ] {
        let annotations = annotation
            .map_or(json!({}), |value| json!({"prometheus.istio.io/merge-metrics": value}));
        let injected = Fixture::with_mesh(mesh.clone()).pod(&pod(&annotations));
        let port = &injected["metadata"]["annotations"]["prometheus.io/port"];
        assert_eq!(*port == "15020", on, "{mesh} {annotation:?}");
    }
}

#[test]
fn empty_prometheus_port_counts_as_absent() {
    let injected = |annotations| {
        let pod = Fixture::default().pod(&pod(&annotations));
        let proxy = &pod["spec"]["initContainers"].as_array().into_iter().flatten();
        proxy
            .clone()
            .chain(pod["spec"]["containers"].as_array().into_iter().flatten())
            .flat_map(|container| container["env"].as_array().into_iter().flatten())
            .find(|variable| variable["name"] == "ISTIO_PROMETHEUS_ANNOTATIONS")
            .map(|variable| variable["value"].clone())
    };
    let scrape = "prometheus.io/scrape";
    let empty = injected(json!({scrape: "true", "prometheus.io/port": ""}));
    assert!(empty.is_some());
    assert_eq!(empty, injected(json!({scrape: "true"})));
}

#[test]
fn invalid_scrape_ports_are_rejected_by_name() {
    for (key, value) in [
        ("prometheus.io/port", "0"),
        ("prometheus.io/port", "65536"),
        ("prometheus.io/port", "http"),
        ("prometheus.io/port", "15000"),
        ("prometheus.io/port", "15001"),
        ("prometheus.io/port", "15004"),
        ("prometheus.io/port", "15006"),
        ("prometheus.io/port", "15008"),
        ("prometheus.io/port", "15021"),
        ("prometheus.io/port", "15053"),
        ("prometheus.io/port", "15090"),
        ("prometheus.istio.io/scrape-targets", "80:/a,15090"),
        ("prometheus.istio.io/scrape-targets", "70000"),
        ("prometheus.istio.io/scrape-targets", "80:/a,0"),
        ("prometheus.istio.io/scrape-targets", "-1"),
        ("prometheus.istio.io/scrape-targets", "80:/a,unreadable"),
        ("prometheus.istio.io/scrape-targets", "80:/a,/metrics"),
        ("prometheus.istio.io/scrape-targets", "80-90"),
        ("prometheus.io/port", " 80"),
    ] {
        let error =
            Fixture::default().injection(&pod(&json!({key: value}))).unwrap_err().to_string();
        let named = value.rsplit(',').next().unwrap();
        assert!(error.contains(key) && error.contains(named), "{key}: {value}: {error}");
    }
}

#[test]
fn secure_port_of_metrics_is_announced_unless_given() {
    for (given, port, announced) in [
        (None, None, None),
        (None, Some("0"), None),
        (None, Some("9443"), Some("9443")),
        (Some("1"), Some("9443"), Some("1")),
    ] {
        let mut annotations = json!({});
        if let Some(given) = given {
            annotations[SECURE_PORT] = given.into();
        }
        if let Some(port) = port {
            let metadata = json!({"proxyMetadata": {"ENVOY_SECURE_MERGED_METRICS_PORT": port}});
            annotations["proxy.istio.io/config"] = metadata.to_string().into();
        }
        let injected = Fixture::default().pod(&pod(&annotations));
        let found = injected["metadata"]["annotations"][SECURE_PORT].as_str();
        assert_eq!(found, announced, "{given:?} {port:?}");
    }
}

#[test]
fn own_status_port_in_a_file_prevents_reinjection() {
    let config = json!({"proxy.istio.io/config": "statusPort: 15021"});
    let mut pod = pod(&config);
    for _ in 0..2 {
        let ran = Fixture::default().run("policy: enabled", &json!({}), &pod, Rules::Manual);
        let Ok(InjectionOutcome::Injected(injection)) = ran else { panic!("{ran:?}") };
        let port = &injection.pod["metadata"]["annotations"]["prometheus.io/port"];
        assert_eq!(*port, "15021");
        pod = injection.pod;
    }
}

const SECURE_PORT: &str = "prometheus.istio.io/secure-port";
