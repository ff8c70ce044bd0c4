//! Events about pods, written by the injector.

use std::fs;

use e2e::api_servers::ApiServers;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::injected;
use crate::program::{Program, until};
use crate::shop::{Shop, of_deployment};

pub(crate) fn metrics_and_one_event_for_each_workload(server: &ApiServers) {
    let mut shop = Shop::open(server, "events");
    allow_reading(&shop);
    shop.fixture.allow("", "events", &["create"]);
    shop.fixture.allow("apps", "deployments", &["get"]);
    let directory = TempDir::new().unwrap();
    let values = directory.path().join("values.yaml");
    fs::write(&values, "{}").unwrap();
    let values_flag = ["--valuesFile", values.to_str().unwrap(), "--reload-interval", "100ms"];
    let start = || shop.fixture.start(&[&EVERY_SECOND[..], &shop.hooks(), &values_flag].concat());
    // Two replicas; the API server calls the first.
    let replicas = [start(), start()];
    shop.namespace(NAMESPACE, &json!({}));
    shop.fixture.apply(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": "app"}]},
        }},
    }));
    for name in ["web-1", "web-2"] {
        shop.pod(NAMESPACE, name, &of_deployment("web"));
    }
    // The API server does not check the name that a pod gives for its controller.
    shop.namespace(ODD, &json!({}));
    let mut odd = of_deployment("odd");
    let owner = &mut odd["metadata"]["ownerReferences"][0];
    (owner["kind"], owner["name"]) = (json!("Odd_Kind"), json!("Odd_Näme/x"));
    shop.pod(ODD, "odd", &odd);
    // Rejected Events in one namespace do not affect others.
    shop.namespace(REFUSED, &json!({}));
    shop.pod(REFUSED, "refused", &json!({}));
    refuse_events(server, &shop);
    shop.hook(&replicas[0]);
    for replica in &replicas {
        replica.metric_becomes("sidecar_injector_report{state=\"current\"}", 1.0);
        assert!(replica.metric(&series("without_sidecar")) < 1.0);
    }

    // The label is set after the pods were created.
    shop.namespace(ODD, &json!({"istio-injection": "enabled"}));
    shop.namespace(REFUSED, &json!({"istio-injection": "enabled"}));
    shop.namespace(NAMESPACE, &json!({"istio-injection": "enabled"}));
    for replica in &replicas {
        replica.metric_becomes(&series("without_sidecar"), 2.0);
    }
    until("there is an Event", || !events(&shop).is_empty());
    let name = "odd-kind-odd-n-me-x.sidecar-missing";
    until("the odd one has an Event", || {
        let list = shop.get(&["events", "-n", ODD]);
        list["items"].as_array().unwrap().iter().any(|event| event["metadata"]["name"] == name)
    });
    let event = &events(&shop)[0];
    assert_eq!(event["metadata"]["name"], "deployment-web.sidecar-missing");
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("SidecarMissing")));
    let deployment = shop.get(&["deployment", "web", "-n", NAMESPACE]);
    assert_eq!(event["involvedObject"]["uid"], deployment["metadata"]["uid"]);
    insta::assert_snapshot!(event["message"].as_str().unwrap(), @"2 pods run without the sidecar that a new pod would get: no sidecar, though webhook configuration hooks-events selects the pod");
    let described = shop.kubectl(&["describe", "deployment", "web", "-n", NAMESPACE], "");
    assert!(described.contains("SidecarMissing"), "{described}");

    // A new pod is injected, and stale once the configuration changes.
    shop.pod(NAMESPACE, "api", &json!({}));
    fs::write(&values, "global: {tag: 9.9.9}").unwrap();
    for replica in &replicas {
        replica.metric_becomes(&series("stale"), 1.0);
    }
    until("there is an Event of the stale pod", || events(&shop).len() == 2);
    let stale = &events(&shop)[0];
    assert_eq!(stale["metadata"]["name"], "pod-api.sidecar-stale");
    let uid = &shop.get(&["pod", "api", "-n", NAMESPACE])["metadata"]["uid"];
    assert_eq!(&stale["involvedObject"]["uid"], uid);

    // Further rounds write nothing: each replica has tried once for each workload.
    for replica in &replicas {
        rounds(replica, 3);
    }
    assert_eq!(events(&shop).len(), 2);
    for replica in &replicas {
        replica.metric_becomes("sidecar_injector_report_event_failures_total", 1.0);
        assert_eq!(
            replica.count("the API server rejected an Event; metrics have the same information"),
            1
        );
        assert_eq!(replica.count("grant the service account"), 0);
    }
    let created = created(server);
    assert!(created.len() <= 4, "{created:?}");
    assert_eq!(created.iter().filter(|code| **code == 201).count(), 2, "{created:?}");

    // Deleted pods are no longer reported.
    for name in ["web-1", "web-2", "api"] {
        shop.delete(NAMESPACE, name);
    }
    for replica in &replicas {
        replica.metric_becomes(&series("without_sidecar"), 0.0);
        replica.metric_becomes(&series("stale"), 0.0);
    }
}

pub(crate) fn injection_continues_without_permissions(server: &ApiServers) {
    let mut shop = Shop::open(server, "rights");
    shop.namespace("rights", &json!({}));
    shop.pod("rights", "early", &json!({}));
    shop.namespace("rights", &json!({"istio-injection": "enabled"}));
    let injector = shop.fixture.start(&[&EVERY_SECOND[..], &shop.hooks()].concat());
    until("it was tried again", || {
        shop.fixture.denials("get", "mutatingwebhookconfigurations") >= 3
    });
    injector.metric_becomes("sidecar_injector_report{state=\"forbidden\"}", 1.0);
    assert_eq!(injector.count("the report failed; injection continues"), 1);
    let (pod, _) = injected(
        &mut injector.connect(),
        "rights",
        &json!({
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "app", "image": "app"}]},
        }),
    );
    assert_eq!(pod["spec"]["initContainers"][1]["name"], "istio-proxy", "{pod}");

    // A permission granted later takes effect, and metrics need no permission to write Events.
    shop.hook(&injector);
    allow_reading(&shop);
    injector.metric_becomes("sidecar_injector_report{state=\"current\"}", 1.0);
    injector.metric_becomes("sidecar_injector_pods_without_sidecar{namespace=\"rights\"}", 1.0);
    until("Events were tried again", || shop.fixture.denials("create", "events") >= 2);
    assert_eq!(injector.count("Events are disabled; metrics have the same information"), 1);
}

/// In an earlier version it came one interval late, because there was no configuration yet.
pub(crate) fn first_report_waits_only_for_a_configuration(server: &ApiServers) {
    let shop = Shop::open(server, "first");
    allow_reading(&shop);
    shop.fixture.allow("", "configmaps", &["get", "list", "watch"]);
    shop.configure("not: [values");
    let flags = [["--report-interval", "1h"], shop.hooks()].concat();
    let injector = shop.fixture.start_by_config_maps(&flags);
    until("the configuration is refused", || {
        injector.metric("sidecar_injector_configuration_refused_total") >= 1.0
    });
    shop.configure("{}");
    injector.metric_becomes("sidecar_injector_report{state=\"current\"}", 1.0);
}

/// Creates a policy that rejects every Event in [`REFUSED`].
fn refuse_events(server: &ApiServers, shop: &Shop<'_>) {
    let version = "admissionregistration.k8s.io/v1";
    shop.fixture.apply(&json!({
        "apiVersion": version, "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-events"},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": REFUSED}},
                "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["events"],
                    "operations": ["CREATE"],
                }],
            },
            "validations": [{"expression": "false"}],
        },
    }));
    shop.fixture.apply(&json!({
        "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-events"},
        "spec": {"policyName": "no-events", "validationActions": ["Deny"]},
    }));
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "probe", "namespace": REFUSED},
        "involvedObject": {"kind": "Pod", "name": "probe", "namespace": REFUSED},
    });
    let create = &["create", "--dry-run=server", "-f", "-"];
    until("Events are refused", || {
        server.kubectl().must_with_input(create, &event.to_string()).is_err()
    });
}

fn allow_reading(shop: &Shop<'_>) {
    let group = "admissionregistration.k8s.io";
    shop.fixture.allow(group, "mutatingwebhookconfigurations", &["get"]);
    shop.fixture.allow("", "namespaces", &["list"]);
    shop.fixture.allow("", "pods", &["list"]);
}

/// Waits for this number of further rounds.
fn rounds(program: &Program, count: u32) {
    let time = || program.metric("sidecar_injector_report_timestamp_seconds");
    let after = time() + f64::from(count);
    until("more reports are made", || time() >= after);
}

fn series(what: &str) -> String {
    format!("sidecar_injector_pods_{what}{{namespace=\"{NAMESPACE}\"}}")
}

/// Returns the Events of the injector, latest first.
fn events(shop: &Shop<'_>) -> Vec<Value> {
    let list = shop.get(&["events", "-n", NAMESPACE]);
    let events = list["items"].as_array().unwrap().iter();
    let mut own: Vec<_> = events
        .filter(|event| event["source"]["component"] == "sidecar-injector")
        .cloned()
        .collect();
    own.sort_by_key(|event| event["metadata"]["name"] == "deployment-web.sidecar-missing");
    own
}

/// Returns the API server's status codes for creations of Events in that namespace.
fn created(server: &ApiServers) -> Vec<u64> {
    let audit = server.audit().unwrap();
    let created = audit.iter().filter(|event| {
        event["verb"] == "create"
            && event["objectRef"]["resource"] == "events"
            && event["objectRef"]["namespace"] == NAMESPACE
            && event["stage"] == "ResponseComplete"
    });
    created.map(|event| event["responseStatus"]["code"].as_u64().unwrap()).collect()
}

const EVERY_SECOND: [&str; 4] = ["--enable-native-sidecars", "true", "--report-interval", "1s"];
const NAMESPACE: &str = "events";
/// Sorts before [`NAMESPACE`], so that it comes first.
const ODD: &str = "a-odd";
/// Sorts before [`NAMESPACE`] too.
const REFUSED: &str = "a-refused";
