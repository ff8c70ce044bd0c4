//! The manifests of the node agent: rights, privileges, folders of platforms.

use e2e::manifests::Composition;
use e2e::programs::Programs;
use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::{Value, json};

use super::alerts::promtool;
use super::documents::{retyped, split};

#[test]
fn agent_has_the_rights_and_privileges_of_its_work_alone() {
    let documents = rendered(&[]);
    let role = find(&documents, "ClusterRole");
    assert_eq!(
        role["rules"],
        json!([
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        ])
    );
    let daemon_set = find(&documents, "DaemonSet");
    assert_eq!(&retyped::<DaemonSet>(daemon_set), daemon_set);
    let pod = &daemon_set["spec"]["template"]["spec"];
    assert_eq!(
        (&pod["priorityClassName"], &pod["hostNetwork"]),
        (&json!("system-node-critical"), &json!(true))
    );
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    let container = &pod["containers"][0];
    assert_eq!(container["ports"], Value::Null);
    let capabilities = &container["securityContext"]["capabilities"];
    let added = ["DAC_OVERRIDE", "NET_ADMIN", "SYS_ADMIN"];
    assert_eq!(*capabilities, json!({"drop": ["ALL"], "add": added}));
    let namespace = find(&documents, "Namespace");
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "privileged");
}

/// A namespace is a mount, and those of later pods come after the agent's container.
#[test]
fn namespaces_of_later_pods_reach_the_agent() {
    let documents = rendered(&[]);
    let agent = &find(&documents, "DaemonSet")["spec"]["template"]["spec"]["containers"][0];
    let mounts = agent["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["name"] == "cni-netns-dir").unwrap();
    assert_eq!(mount["mountPropagation"], "HostToContainer");
}

#[test]
fn platforms_have_their_folders() {
    let platforms: [(&[&str], _, _, _); 5] = [
        (&["../cni/platforms/gke"], "/home/kubernetes/bin", "/etc/cni/net.d", None),
        (
            &["../cni/platforms/k3s"],
            "/var/lib/rancher/k3s/data/cni",
            "/var/lib/rancher/k3s/agent/etc/cni/net.d",
            None,
        ),
        (
            &["../cni/platforms/microk8s"],
            "/var/snap/microk8s/current/opt/cni/bin",
            "/var/snap/microk8s/current/args/cni-network",
            None,
        ),
        (&["../cni/platforms/multus"], "/opt/cni/bin", "/etc/cni/multus/net.d", Some("standalone")),
        (
            &["../cni/platforms/openshift"],
            "/var/lib/cni/bin",
            "/etc/cni/multus/net.d",
            Some("standalone"),
        ),
    ];
    for (platform, bin, conf, mode) in platforms {
        let documents = rendered(platform);
        let pod = &find(&documents, "DaemonSet")["spec"]["template"]["spec"];
        let volumes = pod["volumes"].as_array().unwrap();
        let folder = |name: &str| {
            let volume = volumes.iter().find(|volume| volume["name"] == name).unwrap();
            volume["hostPath"]["path"].as_str().unwrap()
        };
        assert_eq!((folder("cni-bin-dir"), folder("cni-net-dir")), (bin, conf), "{platform:?}");
        let env = pod["containers"][0]["env"].as_array().unwrap();
        let found = env.iter().find(|variable| variable["name"] == "CONFIG_MODE");
        assert_eq!(found.and_then(|variable| variable["value"].as_str()), mode, "{platform:?}");
    }
}

#[test]
fn each_alert_of_the_agent_fires_by_its_series_alone() {
    let documents = rendered(&["../cni/monitoring"]);
    let spec = &find(&documents, "PrometheusRule")["spec"];
    let rules = spec["groups"][0]["rules"].as_array().unwrap();
    let repairs = "istio_cni_repair_pods_repaired_total";
    let cases = [
        ("CniAgentDown", "up", "", "0x20"),
        ("CniPluginNotInstalled", "istio_cni_install_ready", "", "0x20"),
        ("CniPodsWithoutCapture", "istio_cni_pods_without_capture_total", "", "0x14 1x6"),
        ("CniRepairFailing", repairs, r#",result="fail",type="repair""#, "0x8 1x12"),
    ];
    assert_eq!(rules.len(), cases.len());
    let series = |name: &str, labels: &str, values: &str| {
        let target = r#"job="istio-cni-node",node="n""#;
        json!({"series": format!("{name}{{{target}{labels}}}"), "values": values})
    };
    let tests = cases.iter().map(|(alert, _, _, _)| Some(*alert)).chain([None]).map(|fires| {
        let at_rest = |name: &str| if name.ends_with("total") { "0x20" } else { "1x20" };
        let input = cases.iter().map(|(alert, name, labels, values)| {
            let values = if fires == Some(*alert) { values } else { at_rest(name) };
            series(name, labels, values)
        });
        let tests = rules.iter().map(|rule| {
            let alert = rule["alert"].as_str().unwrap();
            let is_firing = fires == Some(alert);
            let mut labels = json!({"node": "n", "job": "istio-cni-node",
                "severity": rule["labels"]["severity"]});
            if alert == "CniRepairFailing" {
                labels["type"] = "repair".into();
                labels["result"] = "fail".into();
            }
            let text = rule["annotations"].to_string();
            let text =
                text.replace("{{ $labels.node }}", "n").replace("{{ $labels.type }}", "repair");
            let annotations: Value = serde_json::from_str(&text).unwrap();
            let expected = json!({"exp_labels": labels, "exp_annotations": annotations});
            let expected = if is_firing { vec![expected] } else { Vec::new() };
            json!({"eval_time": "18m", "alertname": alert, "exp_alerts": expected})
        });
        json!({"interval": "1m", "input_series": input.collect::<Vec<_>>(),
            "alert_rule_test": tests.collect::<Vec<_>>()})
    });
    promtool(spec, &tests.collect::<Vec<_>>());
    let agent = &find(&documents, "DaemonSet")["spec"]["template"]["spec"]["containers"][0];
    let port = find(&documents, "PodMonitor")["spec"]["podMetricsEndpoints"][0]["port"].clone();
    assert_eq!(agent["ports"], json!([{"name": port, "containerPort": 15014}]));
}

pub(crate) fn rendered(components: &'static [&'static str]) -> Vec<Value> {
    let programs = Programs::find().unwrap();
    split(&Composition::new(components).render_over(&programs, "cni").unwrap())
}

fn find<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    documents.iter().find(|document| document["kind"] == kind).unwrap()
}
