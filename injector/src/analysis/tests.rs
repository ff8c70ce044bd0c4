//! Every message, from the webhook configurations of our manifests and changes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use documents::yaml;
use serde_json::{Value, json};

use super::analyze;
use super::cluster_state::{AnalyzedNamespace, AnalyzedPod, ClusterState};
use super::message::{Level, Message, MessageKind, MessageOrigin};
use super::suppression::{Suppression, is_suppressed_by_object};
use crate::kubernetes::webhook_configuration::{HookConfiguration, HookError};
use crate::report::inspection::{Answer, Injector, Injectors};
use crate::settings::proxy_configs::ProxyConfigs;
use crate::settings::{Documents, Process, Settings};

#[derive(Default)]
struct Cluster {
    configurations: Vec<HookConfiguration>,
    invalid: Vec<HookError>,
    known: BTreeMap<String, Injector>,
    namespaces: BTreeMap<String, AnalyzedNamespace>,
    pods: Vec<AnalyzedPod>,
    services: BTreeSet<(String, String)>,
    unresolved: BTreeMap<String, String>,
    built_in: Option<Injector>,
}

impl Cluster {
    /// Returns a cluster with an installation of ours.
    fn new() -> Self {
        let mut cluster = Self::default();
        cluster.add_webhook(&base());
        cluster.services.insert(("istio-system".to_owned(), "sidecar-injector".to_owned()));
        let process = Process { native_sidecars: true, ..Process::default() };
        let settings = Settings::parse(&Documents::default(), process).unwrap();
        let proxy_configs = ProxyConfigs::default();
        let injector = Injector { settings: Arc::new(settings), proxy_configs };
        cluster.known.insert("default".to_owned(), injector);
        cluster
    }

    fn add_webhook(&mut self, configuration: &Value) {
        self.configurations.extend(HookConfiguration::read(configuration).unwrap());
        self.configurations.sort_by(|one, other| one.name.cmp(&other.name));
    }

    fn add_namespace(&mut self, name: &str, mut labels: Value) {
        labels["kubernetes.io/metadata.name"] = name.into();
        let origin = origin("Namespace", "", name);
        self.namespaces.insert(name.to_owned(), AnalyzedNamespace { origin, labels });
    }

    fn add_pod(&mut self, kind: &str, name: &str, mut pod: Value) {
        pod["metadata"]["namespace"] = "shop".into();
        let running = kind == "Pod";
        self.pods.push(AnalyzedPod { origin: origin(kind, "shop", name), pod, running });
    }

    fn messages(&self) -> String {
        let messages = analyze(&ClusterState {
            injectors: Injectors { configurations: &self.configurations, known: &self.known },
            webhooks: &BTreeMap::new(),
            invalid_webhooks: &self.invalid,
            namespaces: &self.namespaces,
            pods: &self.pods,
            services: &self.services,
            unresolved: &self.unresolved,
            built_in: self.built_in.as_ref(),
            control_plane: "istio-system",
        });
        messages.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }
}

static MISSING_PROXY: MessageKind = MessageKind { code: "IST0103", level: Level::Warning };

fn base() -> Value {
    yaml::parse(include_str!("../../../manifests/base/webhook.yaml")).unwrap()
}

fn origin(kind: &str, namespace: &str, name: &str) -> MessageOrigin {
    let [kind, namespace, name] = [kind, namespace, name].map(str::to_owned);
    MessageOrigin { kind, namespace, name, ..MessageOrigin::default() }
}

fn pod(image: &str) -> Value {
    json!({"metadata": {}, "spec": {"containers": [{"name": "app", "image": image}]}})
}

#[test]
fn namespaces_need_one_injection_label() {
    let mut cluster = Cluster::new();
    cluster.add_namespace("bare", json!({}));
    cluster.add_namespace("both", json!({"istio-injection": "enabled", "istio.io/rev": "canary"}));
    for (name, labels) in [
        ("ambient", json!({"istio.io/dataplane-mode": "ambient"})),
        ("enabled", json!({"istio-injection": "enabled"})),
        ("disabled", json!({"istio-injection": "disabled"})),
        ("revision", json!({"istio.io/rev": "default"})),
        ("istio-system", json!({})),
        ("kube-system", json!({})),
    ] {
        cluster.add_namespace(name, labels);
    }
    insta::assert_snapshot!(cluster.messages());

    let mut everywhere = base();
    everywhere["webhooks"][0]["namespaceSelector"] = json!({});
    everywhere["webhooks"].as_array_mut().unwrap().truncate(1);
    cluster.configurations.clear();
    cluster.add_webhook(&everywhere);
    insta::assert_snapshot!(cluster.messages());
}

#[test]
fn pods_need_the_current_proxy() {
    let mut cluster = Cluster::new();
    cluster.add_namespace("shop", json!({"istio-injection": "enabled"}));
    cluster.add_pod("Pod", "early", pod("app"));
    let mut out = pod("app");
    out["metadata"]["annotations"]["sidecar.istio.io/inject"] = "false".into();
    cluster.add_pod("Pod", "out", out);
    let mut node = pod("app");
    node["spec"]["hostNetwork"] = true.into();
    cluster.add_pod("Pod", "node", node);
    cluster.add_pod("Deployment", "web", pod("app"));
    let answer = cluster.known["default"].answer(&pod("app"));
    let Answer::Inject(injection) = answer else { panic!("not injected") };
    let mut stale = injection.pod.clone();
    stale["spec"]["initContainers"][1]["image"] = "istio/proxyv2:1.0".into();
    cluster.add_pod("Pod", "current", injection.pod);
    cluster.add_pod("Pod", "stale", stale);
    insta::assert_snapshot!(cluster.messages());
}

#[test]
fn image_auto_needs_injection() {
    let mut cluster = Cluster::new();
    cluster.add_namespace("shop", json!({"istio-injection": "disabled"}));
    cluster.add_pod("Deployment", "gateway", pod("auto"));
    cluster.add_pod("Pod", "gateway-1", pod("auto"));
    cluster.add_pod("Pod", "web", pod("app"));
    insta::assert_snapshot!(cluster.messages());
    cluster.add_namespace("shop", json!({"istio-injection": "enabled"}));
    cluster.pods.remove(1);
    cluster.pods.pop();
    assert_eq!(cluster.messages(), "");
}

#[test]
fn annotations_need_valid_values() {
    let mut cluster = Cluster::new();
    cluster.add_namespace("shop", json!({"istio-injection": "enabled"}));
    let mut invalid = pod("busybox");
    invalid["metadata"]["annotations"] = json!({
        "sidecar.istio.io/proxyCPU": "12 apples",
        "traffic.sidecar.istio.io/includeOutboundPorts": "80,abc",
    });
    // A pod that no webhook selects is not denied.
    let mut out = invalid.clone();
    out["metadata"]["labels"]["sidecar.istio.io/inject"] = "false".into();
    cluster.add_pod("Deployment", "out", out);
    cluster.add_pod("Deployment", "web", invalid);
    insta::assert_snapshot!(cluster.messages());
}

#[test]
fn denied_pods_are_errors() {
    let mut cluster = Cluster::new();
    cluster.add_namespace("shop", json!({"istio-injection": "enabled"}));
    let annotated = |key: &str, value: &str| {
        let mut pod = pod("app");
        pod["metadata"]["annotations"][key] = value.into();
        pod
    };
    cluster.add_pod("Deployment", "template", annotated("inject.istio.io/templates", "gone"));
    cluster.add_pod("Deployment", "scrape", annotated("prometheus.io/port", "15000"));
    let mut malformed = pod("app");
    malformed["spec"]["containers"] = "app".into();
    cluster.add_pod("StatefulSet", "malformed", malformed);
    let in_cluster = cluster.messages();
    insta::assert_snapshot!(in_cluster);
    // Without a cluster, the built-in settings decide.
    cluster.built_in = cluster.known.remove("default");
    cluster.configurations.clear();
    cluster.namespaces.clear();
    assert_eq!(cluster.messages(), in_cluster);
}

#[test]
fn revisions_of_labels_need_to_exist() {
    let mut cluster = Cluster::new();
    cluster.add_namespace("gone", json!({"istio.io/rev": "gone"}));
    cluster.add_namespace("good", json!({"istio.io/rev": "default"}));
    cluster.add_namespace("shop", json!({}));
    for revision in ["default", "gone"] {
        let mut pod = pod("app");
        pod["metadata"]["labels"]["istio.io/rev"] = revision.into();
        cluster.add_pod("Deployment", revision, pod);
    }
    insta::assert_snapshot!(cluster.messages());
}

#[test]
fn webhooks_must_not_overlap() {
    let mut cluster = Cluster::new();
    cluster.services.clear();
    let mut second = base();
    second["metadata"]["name"] = "second".into();
    second["webhooks"].as_array_mut().unwrap().truncate(2);
    cluster.add_webhook(&second);
    cluster.invalid.push(HookError { name: "bad".to_owned(), problem: "no name".to_owned() });
    insta::assert_snapshot!(cluster.messages());

    // A webhook that excludes injected pods does not inject them again.
    let mut cluster = Cluster::new();
    for entry in second["webhooks"].as_array_mut().unwrap() {
        entry["matchConditions"] = json!([{
            "name": "not-injected",
            "expression": "!has(object.metadata.annotations) || \
                           !('sidecar.istio.io/status' in object.metadata.annotations)",
        }]);
    }
    cluster.add_webhook(&second);
    assert_eq!(cluster.messages(), "");
}

#[test]
fn urls_of_webhooks_need_a_known_host() {
    let mut cluster = Cluster::new();
    for (revision, url) in [
        ("address", "https://192.0.2.1:15017/inject"),
        ("blank", "https:///inject"),
        ("good", "https://injector.example/inject"),
        ("unknown", "https://nowhere.example:15017/inject"),
    ] {
        let mut remote = base();
        remote["metadata"] = json!({"name": revision, "labels": {"istio.io/rev": revision}});
        let entries = remote["webhooks"].as_array_mut().unwrap();
        entries.truncate(1);
        entries[0]["clientConfig"] = json!({"url": url});
        entries[0]["namespaceSelector"] = json!({"matchLabels": {"team": revision}});
        cluster.add_webhook(&remote);
    }
    cluster.unresolved.insert("nowhere.example".to_owned(), "no such host".to_owned());
    insta::assert_snapshot!(cluster.messages());
}

#[test]
fn messages_are_suppressed_by_flag_or_annotation() {
    let mut origin = origin("Pod", "shop", "web-1");
    let suppressed = |pattern: &str, origin: &MessageOrigin| {
        let message = Message::new(&MISSING_PROXY, origin, String::new());
        Suppression::parse(pattern).unwrap().applies(&message) || is_suppressed_by_object(&message)
    };
    assert!(suppressed("IST0103=Pod web-*.shop", &origin));
    assert!(suppressed("IST0103=Pod shop/web-1", &origin));
    assert!(!suppressed("IST0102=Pod shop/web-1", &origin));
    origin.suppressed = "IST0102, IST0103".to_owned();
    assert!(suppressed("IST0102=no", &origin));
}
