//! The Helm chart of the node agent, beside `manifests/cni`.

use std::collections::BTreeMap;

use e2e::helm::Helm;
use e2e::manifests::Composition;
use e2e::programs::{Programs, repository};
use serde_json::{Value, json};

use crate::documents::split;

#[test]
fn cni_chart_installs_what_kustomize_does() {
    let compositions: [(&[&str], Value); 9] = [
        (&[], json!({})),
        (&["../cni/monitoring"], json!({"prometheus": {"enabled": true}})),
        (&["../cni/untaint"], json!({"taint": {"enabled": true}})),
        (&["../cni/platforms/gke"], json!({"global": {"platform": "gke"}})),
        (&["../cni/platforms/k3s"], json!({"global": {"platform": "k3s"}})),
        (&["../cni/platforms/microk8s"], json!({"global": {"platform": "microk8s"}})),
        (&["../cni/platforms/multus"], json!({"provider": "multus"})),
        (&["../cni/platforms/openshift"], json!({"global": {"platform": "openshift"}})),
        (
            &["../cni/platforms/openshift"],
            json!({"global": {"platform": "openshift"}, "provider": "multus"}),
        ),
    ];
    for (components, values) in compositions {
        assert_equal(&templated(&values), &rendered("cni", components), &values);
    }
    let values = json!({"uninstall": true});
    assert_equal(&templated(&values), &rendered("cni-uninstall", &[]), &values);
    let values = json!({"uninstall": true, "global": {"platform": "openshift"}});
    let components: &[&str] = &["../cni/platforms/openshift", "../cni/uninstall"];
    assert_equal(&templated(&values), &rendered("cni", components), &values);
}

#[test]
fn cni_chart_values_reach_their_place() {
    const CONTAINER: &str = "/spec/template/spec/containers/0";
    let container = |path: &str| format!("{CONTAINER}{path}");
    let capabilities = container("/securityContext/capabilities/add");
    let no_repair = |further: &str| {
        let mut repair = json!({"repairPods": false});
        if !further.is_empty() {
            repair[further] = true.into();
        }
        json!({"repair": repair})
    };
    for (values, path, expected) in [
        (
            json!({"global": {"hub": "r.example/m/", "tag": 1.5}}),
            container("/image"),
            json!("r.example/m/install-cni:1.5"),
        ),
        (
            json!({"image": "r.example/a@sha256:0"}),
            container("/image"),
            json!("r.example/a@sha256:0"),
        ),
        (
            json!({"global": {"imagePullPolicy": "Always"}}),
            container("/imagePullPolicy"),
            json!("Always"),
        ),
        (
            json!({"hub": "r.example/n", "tag": 2, "pullPolicy": "Never", "global": {"tag": 1}}),
            container("/image"),
            json!("r.example/n/install-cni:2"),
        ),
        (json!({"pullPolicy": "Never"}), container("/imagePullPolicy"), json!("Never")),
        (json!({"cniBinDir": "/b"}), volume(0), json!("/b")),
        (json!({"cniConfDir": "/c", "global": {"platform": "k3s"}}), volume(2), json!("/c")),
        (json!({"global": {"platform": "k3d"}}), volume(0), json!("/bin")),
        (
            json!({"cniNetnsDir": "/var/run/docker/netns"}),
            volume(3),
            json!("/var/run/docker/netns"),
        ),
        (json!({"cniNetnsDir": "/n"}), container("/volumeMounts/4/mountPath"), json!("/n")),
        (no_repair(""), capabilities.clone(), json!(["DAC_OVERRIDE"])),
        (json!({"repair": {"enabled": false}}), capabilities, json!(["DAC_OVERRIDE"])),
        (
            json!({"resources": {"limits": {"memory": "1Gi"}}}),
            container("/resources/limits/memory"),
            json!("1Gi"),
        ),
        (
            json!({"seLinuxOptions": {"level": "s0"}}),
            container("/securityContext/seLinuxOptions"),
            json!({"level": "s0"}),
        ),
        (json!({"monitoringPort": 9}), container("/ports/0/containerPort"), json!(9)),
        (json!({"tolerations": []}), pod("/tolerations"), Value::Null),
        (
            json!({"nodeSelector": {"a": "b"}}),
            pod("/nodeSelector"),
            json!({"a": "b", "kubernetes.io/os": "linux"}),
        ),
        (json!({"affinity": {"nodeAffinity": {}}}), pod("/affinity"), json!({"nodeAffinity": {}})),
        (
            json!({"terminationGracePeriodSeconds": 9}),
            pod("/terminationGracePeriodSeconds"),
            json!(9),
        ),
        (
            json!({"seccompProfile": {"type": "Unconfined"}}),
            pod("/securityContext/seccompProfile/type"),
            json!("Unconfined"),
        ),
        (
            json!({"updateStrategy": {"type": "OnDelete"}}),
            "/spec/updateStrategy/type".to_owned(),
            json!("OnDelete"),
        ),
        (
            json!({"podAnnotations": {"a": "1"}}),
            "/spec/template/metadata/annotations".to_owned(),
            json!({"a": "1"}),
        ),
        (
            json!({"podLabels": {"a": "1"}}),
            "/spec/template/metadata/labels/a".to_owned(),
            json!("1"),
        ),
        (json!({"daemonSetLabels": {"a": "1"}}), "/metadata/labels/a".to_owned(), json!("1")),
        // The selector's label is not replaced.
        (
            json!({"podLabels": {"k8s-app": "x"}}),
            "/spec/template/metadata/labels/k8s-app".to_owned(),
            json!("istio-cni-node"),
        ),
    ] {
        let found = templated(&values)["DaemonSet istio-cni-node"].pointer(&path).cloned();
        assert_eq!(found.unwrap_or_default(), expected, "{values} {path}");
    }
    for (values, name, expected) in [
        (json!({"cniConfFileName": "10-a.conflist"}), "CNI_CONF_NAME", "10-a.conflist"),
        (json!({"configMode": "edit"}), "CONFIG_MODE", "edit"),
        (json!({"istioOwnedCNIConfig": true}), "ISTIO_OWNED_CNI_CONFIG", "true"),
        (
            json!({"istioOwnedCNIConfigFileName": "0.conflist"}),
            "ISTIO_OWNED_CNI_CONFIG_FILENAME",
            "0.conflist",
        ),
        (json!({"chained": false}), "CHAINED_CNI_PLUGIN", "false"),
        (json!({"excludeNamespaces": ["a", "b"]}), "EXCLUDE_NAMESPACES", "a,b"),
        (json!({"excludeNamespaces": []}), "EXCLUDE_NAMESPACES", ""),
        (json!({"onUnknown": "pass"}), "ON_UNKNOWN", "pass"),
        (json!({"repair": {"enabled": false}}), "REPAIR_ENABLED", "false"),
        (no_repair(""), "REPAIR_REPAIR_PODS", "false"),
        (no_repair("deletePods"), "REPAIR_DELETE_PODS", "true"),
        (no_repair("labelPods"), "REPAIR_BROKEN_POD_LABEL_KEY", "cni.istio.io/uninitialized"),
        (json!({"logging": {"level": "debug"}}), "LOG", "debug"),
        (json!({"monitoringPort": 9}), "MONITORING_PORT", "9"),
        (json!({"env": {"CNI_CONF_GROUP_READ": true}}), "CNI_CONF_GROUP_READ", "true"),
    ] {
        let agent = &templated(&values)["DaemonSet istio-cni-node"];
        let env = agent.pointer(&container("/env")).unwrap().as_array().unwrap();
        let found: Vec<_> = env.iter().filter(|variable| variable["name"] == name).collect();
        assert_eq!(found, [&json!({"name": name, "value": expected})], "{values}");
    }
}

#[test]
fn cni_chart_grants_what_repair_needs() {
    let rights = |repair: Value| {
        let objects = templated(&json!({"repair": repair}));
        let rules = objects["ClusterRole outrigger-cni"]["rules"].as_array().unwrap().clone();
        rules.into_iter().skip(3).collect::<Vec<_>>()
    };
    let rule =
        |resource, verb| json!({"apiGroups": [""], "resources": [resource], "verbs": [verb]});
    assert!(rights(json!({"deletePods": true})).is_empty(), "repairPods goes first");
    let repair = json!({"repairPods": false, "deletePods": true, "labelPods": true});
    assert_eq!(rights(repair), [rule("pods", "delete")]);
    let repair = json!({"repairPods": false, "labelPods": true});
    assert_eq!(rights(repair), [rule("pods/status", "patch")]);
    let objects =
        templated(&json!({"guardPolicy": false, "resourceQuotas": {"enabled": true, "pods": 7},
        "global": {"imagePullSecrets": ["registry"]}}));
    assert!(!objects.contains_key("ValidatingAdmissionPolicy istio-cni-node"));
    assert_eq!(objects["ResourceQuota istio-cni"]["spec"]["hard"]["pods"], "7");
    let secrets = &objects["ServiceAccount istio-cni"]["imagePullSecrets"];
    assert_eq!(*secrets, json!([{"name": "registry"}]));
}

#[test]
fn cni_chart_names_the_namespace_of_the_release() {
    let text = template("kube-system", &json!({"global": {"platform": "openshift"}})).unwrap();
    assert!(!text.contains("namespace: istio-cni") && !text.contains("serviceaccount:istio-cni:"));
    assert!(text.contains("\"system:serviceaccount:kube-system:istio-cni\""), "{text}");
}

#[test]
fn invalid_values_of_the_cni_chart_are_named() {
    for (values, named) in [
        (json!({"ambient": {"enabled": true}}), "at '/ambient/enabled'"),
        (
            json!({"istioOwnedCNIConfig": true, "configMode": "edit"}),
            "istioOwnedCNIConfig: true is configMode own",
        ),
        (json!({"env": {"KUBERNETES_NODE_NAME": "n"}}), "env.KUBERNETES_NODE_NAME: each pod has"),
        (json!({"repair": {"initContainerName": "x"}}), "'initContainerName' not allowed"),
        (json!({"global": {"platform": "aws"}}), "at '/global/platform': value must be one of"),
        (json!({"cniBinDir": "opt"}), "at '/cniBinDir'"),
        (json!({"cniConfFileName": "a/b.conf"}), "at '/cniConfFileName'"),
        (json!({"monitoringPort": "x"}), "at '/monitoringPort'"),
        (json!({"provider": "multus", "configMode": "own"}), "configMode: \"own\" is impossible"),
        (
            json!({"chained": false, "configMode": "edit"}),
            "chained: false is configMode standalone",
        ),
        (json!({"configMode": "own", "cniConfFileName": "a.conf"}), "cniConfFileName: configMode"),
    ] {
        let error = template("istio-cni", &values).unwrap_err().to_string();
        assert!(error.contains(named), "{values}: {error}");
    }
}

fn pod(path: &str) -> String {
    format!("/spec/template/spec{path}")
}

fn volume(index: usize) -> String {
    pod(&format!("/volumes/{index}/hostPath/path"))
}

type Objects = BTreeMap<String, Value>;

#[track_caller]
fn assert_equal(chart: &Objects, kustomize: &Objects, values: &Value) {
    let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(chart), names(kustomize), "{values}");
    for (name, object) in chart {
        assert_eq!(object, &kustomize[name], "{values}: {name}");
    }
}

/// Objects of the chart by kind and name.
pub(crate) fn templated(values: &Value) -> Objects {
    by_name(&template("istio-cni", values).unwrap())
}

fn template(namespace: &str, values: &Value) -> anyhow::Result<String> {
    let chart = repository().join("manifests/cni-chart").display().to_string();
    let args = ["template", "outrigger-cni", &chart, "--kube-version=1.35.0", "--values=-"];
    let helm = Helm::new(&Programs::find()?)?.in_namespace(namespace);
    helm.must(&args, &values.to_string())
}

/// Objects of kustomize by kind and name, without the Namespace, which Helm makes.
fn rendered(folder: &str, components: &'static [&'static str]) -> Objects {
    let programs = Programs::find().unwrap();
    let mut objects =
        by_name(&Composition::new(components).render_over(&programs, folder).unwrap());
    objects.remove("Namespace istio-cni").unwrap();
    objects
}

fn by_name(text: &str) -> Objects {
    let mut objects = Objects::new();
    for mut object in split(text).into_iter().filter(Value::is_object) {
        // kustomize puts what it changes first.
        for list in ["/containers/0/env", "/volumes"] {
            if let Some(list) = object.pointer_mut(&pod(list)) {
                list.as_array_mut().unwrap().sort_by_key(|entry| entry["name"].to_string());
            }
        }
        let [kind, name] = [&object["kind"], &object["metadata"]["name"]];
        let name = format!("{} {}", kind.as_str().unwrap(), name.as_str().unwrap());
        objects.insert(name, object);
    }
    objects
}
