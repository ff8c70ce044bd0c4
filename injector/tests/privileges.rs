//! Privileges of injected containers, and the table of them in `docs/security.md`.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use injector::inject::{InjectionOutcome, Target, inject};
use injector::settings::{Document, Documents, Process, Settings};
use serde_json::{Value, json};

/// Container, condition, and the values and annotations that give it the privileges of its row.
fn cases() -> Vec<(&'static str, &'static str, Value, Value)> {
    let none = json!({});
    let init = |image: &str| json!({"global": {"proxy_init": {"image": image}}});
    let tproxy = json!({"sidecar.istio.io/interceptionMode": "TPROXY"});
    let low_ports = json!({"sidecar.istio.io/capNetBindService": "true"});
    let trace = json!({"proxy.istio.io/config": "proxyMetadata: {IPTABLES_TRACE_LOGGING: 'true'}"});
    let gateway = json!({"inject.istio.io/templates": "gateway"});
    vec![
        ("istio-init", "", none.clone(), none.clone()),
        ("istio-init", "an image of another name", init("proxyv2"), none.clone()),
        ("istio-validation", "CNI", json!({"pilot": {"cni": {"enabled": true}}}), none.clone()),
        ("istio-proxy", "", none.clone(), none.clone()),
        ("istio-proxy", "gateway", none.clone(), gateway),
        ("istio-proxy", "TPROXY", none.clone(), tproxy),
        ("istio-proxy", "`capNetBindService`", none.clone(), low_ports),
        ("istio-proxy", "`IPTABLES_TRACE_LOGGING`", none, trace),
    ]
}

#[test]
fn privileges_are_those_of_the_documentation() {
    let page = include_str!("../../docs/security.md");
    let (_, section) = page.split_once("\n## Privileges of injected containers\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let documented: Vec<&str> = section
        .lines()
        .filter(|line| line.starts_with("| `istio-"))
        .map(|line| line.rsplitn(2, " | ").last().unwrap())
        .collect();
    let injected: Vec<String> = cases()
        .iter()
        .map(|(name, condition, values, annotations)| {
            let security =
                container(&injected(values, annotations), name)["securityContext"].clone();
            let root = &security["readOnlyRootFilesystem"];
            let user = &security["runAsUser"];
            let held = privileges(&security);
            format!(
                "| `{name}` | {condition} | {user} | {held} | {}",
                if *root == true { "read-only" } else { "writable" }
            )
        })
        .collect();
    assert_eq!(injected, documented);
}

#[test]
fn privileges_follow_the_name_of_the_init_image() {
    for (image, expected) in [
        ("istio-init", json!(["NET_ADMIN"])),
        (
            "registry.example.com:5000/mesh/istio-init@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            json!(["NET_ADMIN"]),
        ),
        ("registry.example.com/istio-init/proxyv2:1.28.0", json!(["NET_ADMIN", "NET_RAW"])),
        ("registry.example.com/my-istio-init:1", json!(["NET_ADMIN", "NET_RAW"])),
    ] {
        let values = json!({"global": {"proxy_init": {"image": image}}});
        let init = container(&injected(&values, &json!({})), "istio-init");
        let security = &init["securityContext"];
        assert_eq!(security["capabilities"]["add"], expected, "{image}");
    }
    // The annotation names one image for both containers.
    let annotations = json!({"sidecar.istio.io/proxyImage": "istio/proxyv2:1.28.0"});
    let init = container(&injected(&json!({}), &annotations), "istio-init");
    assert_eq!(init["securityContext"]["capabilities"]["add"], json!(["NET_ADMIN", "NET_RAW"]));
}

#[test]
fn image_of_the_user_keeps_istios_privileges() {
    let mut pod = pod(&json!({}));
    pod["spec"]["initContainers"] =
        json!([{"name": "istio-init", "image": "istio/proxyv2:1.28.0"}]);
    let init = container(&injected_into(&json!({}), pod), "istio-init");
    assert_eq!(init["securityContext"]["capabilities"]["add"], json!(["NET_ADMIN", "NET_RAW"]));
}

#[test]
fn injected_volumes_reach_no_node() {
    for (name, condition, values, annotations) in cases() {
        let pod = injected(&values, &annotations);
        for volume in pod["spec"]["volumes"].as_array().unwrap() {
            assert!(volume["hostPath"].is_null(), "{name} {condition}: {volume}");
        }
        for field in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(pod["spec"][field].is_null(), "{name} {condition}: {field}");
        }
    }
}

fn privileges(security: &Value) -> String {
    if security["privileged"] == true {
        return "all: privileged".to_owned();
    }
    if security["capabilities"].is_null() {
        return "the runtime's".to_owned();
    }
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
    let added = security["capabilities"]["add"].as_array();
    let added: Vec<_> = added.into_iter().flatten().map(|one| one.as_str().unwrap()).collect();
    if added.is_empty() { "none".to_owned() } else { format!("`{}`", added.join("`, `")) }
}

fn injected(values: &Value, annotations: &Value) -> Value {
    injected_into(values, pod(annotations))
}

fn injected_into(values: &Value, pod: Value) -> Value {
    let values = values.to_string();
    let values = Some(Document { source: "the values", text: &values });
    let documents = Documents { values, ..Documents::default() };
    let process = Process { native_sidecars: true, ..Process::default() };
    let settings = Settings::parse(&documents, process).unwrap();
    match inject(&settings, Target::at_admission(pod, "shop")).unwrap() {
        InjectionOutcome::Injected(injection) => injection.pod,
        InjectionOutcome::Skipped { reason, .. } => panic!("{reason}"),
    }
}

fn pod(annotations: &Value) -> Value {
    json!({
        "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": annotations},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    })
}

fn container(pod: &Value, name: &str) -> Value {
    let lists = ["containers", "initContainers"].map(|list| pod["spec"][list].as_array());
    lists.into_iter().flatten().flatten().find(|found| found["name"] == name).unwrap().clone()
}
