//! `ProxyConfig` resources.

use serde_json::{Value, json};

use crate::client::plain_get;
use crate::fixture::{Fixture, injected, pod};
use crate::objects::{GROUP, RESOURCE, definition, resource};
use crate::program::{Program, until};

pub(crate) fn proxy_config_change_applies_to_the_next_review(fixture: &Fixture<'_>) {
    fixture.allow(GROUP, "proxyconfigs", &["list", "watch"]);
    let program = fixture.start(&["--enable-native-sidecars", "true"]);
    // Without the resource type, everything else works.
    program.metric_becomes(&state("absent"), 1.0);
    assert_eq!(plain_get(program.admin, "/healthz/ready").status, 200);
    let said = program.log("not installed; retrying");
    assert_eq!((&said["level"], &said["resource"]), (&json!("INFO"), &json!(RESOURCE)));
    let web = || proxy_config(&program, &json!({"app": "web"}));
    assert_eq!(web(), json!({}));

    fixture.apply(&definition());
    program.metric_becomes(&state("current"), 1.0);
    program.metric_becomes(&state("absent"), 0.0);

    let everywhere = |spec| resource(&fixture.namespace, "everywhere", &spec);
    fixture.apply(&everywhere(json!({"concurrency": 3, "environmentVariables": {"A": "root"}})));
    until("the created one counts", || {
        web() == json!({"concurrency": 3, "proxyMetadata": {"A": "root"}})
    });
    fixture.apply(&everywhere(json!({"concurrency": 4, "environmentVariables": {"A": "root"}})));
    until("the changed one counts", || web()["concurrency"] == 4);

    // A process that has just started knows it too.
    let other = fixture.start(&["--enable-native-sidecars", "true"]);
    assert_eq!(proxy_config(&other, &json!({"app": "web"}))["concurrency"], 4);
    drop(other);

    // The first of these three is invalid, and the last one belongs to another revision.
    fixture.create_namespace(SHOP, &json!({}));
    let labels = json!({"matchLabels": {"app": "web"}});
    let wrong = json!({"concurrency": "many", "selector": labels});
    fixture.apply(&resource(SHOP, "a-wrong-one", &wrong));
    let env = json!({"A": "pod"});
    let selecting = json!({"environmentVariables": env, "selector": labels});
    fixture.apply(&resource(SHOP, "selecting", &selecting));
    let mut canary = resource(SHOP, "canary", &json!({"concurrency": 9}));
    canary["metadata"]["labels"] = json!({"istio.io/rev": "canary"});
    fixture.apply(&canary);
    until("the selecting one counts", || {
        web() == json!({"concurrency": 4, "proxyMetadata": {"A": "pod"}})
    });
    assert_eq!(proxy_config(&program, &json!({}))["proxyMetadata"]["A"], "root");
    let refused = program.log("invalid ProxyConfig is ignored");
    assert_eq!((&refused["namespace"], &refused["name"]), (&json!(SHOP), &json!("a-wrong-one")));
    assert_eq!(refused["problem"], "spec.concurrency: \"many\" is not a whole number");
    program.metric_becomes("sidecar_injector_proxy_configs_refused", 1.0);

    fixture.delete(&everywhere(json!({})));
    until("the deleted one does not count", || web() == json!({"proxyMetadata": {"A": "pod"}}));
    fixture.delete(&definition());
    until("none is left", || web() == json!({}));
    program.metric_becomes(&state("absent"), 1.0);
    assert_eq!(program.count("invalid ProxyConfig is ignored"), 1);
}

pub(crate) fn missing_permission_is_logged_once(fixture: &Fixture<'_>) {
    let flags = ["--platform", "openshift", "--enable-native-sidecars", "auto"];
    let program = fixture.start(&flags);
    let watched = [("proxyconfigs", RESOURCE), ("nodes", "nodes"), ("namespaces", "namespaces")];
    for (plural, resource) in watched {
        until("it was tried again", || fixture.denials("list", plural) >= 2);
        let metric =
            |state| format!("sidecar_injector_watch{{resource=\"{resource}\",state=\"{state}\"}}");
        assert!(program.metric(&metric("forbidden")) > 0.0, "{resource}");
    }
    assert_eq!(plain_get(program.admin, "/healthz/ready").status, 200);
    // The defaults apply: every node supports native sidecars, and every namespace allows the
    // default user.
    let (pod, warnings) = injected(&mut program.connect(), "default", &pod(&json!({}), None));
    assert_eq!(pod["spec"]["initContainers"][1]["name"], "istio-proxy", "{pod}");
    assert_eq!(pod["spec"]["initContainers"][1]["securityContext"]["runAsUser"], 1337);
    assert!(warnings[0].as_str().unwrap().contains("(namespace_unknown)"), "{warnings}");
    assert_eq!(program.count("watch is forbidden"), watched.len());

    fixture.allow("", "nodes", &["list", "watch"]);
    program.metric_becomes("sidecar_injector_watch{resource=\"nodes\",state=\"current\"}", 1.0);
}

/// Returns the `PROXY_CONFIG` of a pod's proxy in the namespace of the shop.
fn proxy_config(program: &Program, labels: &Value) -> Value {
    let (pod, _) = injected(&mut program.connect(), SHOP, &pod(labels, None));
    let proxy = &pod["spec"]["initContainers"][1];
    assert_eq!(proxy["name"], "istio-proxy", "{pod}");
    let env = proxy["env"].as_array().unwrap();
    let config = env.iter().find(|variable| variable["name"] == "PROXY_CONFIG").unwrap();
    serde_json::from_str(config["value"].as_str().unwrap()).unwrap()
}

fn state(state: &str) -> String {
    format!("sidecar_injector_watch{{resource=\"{RESOURCE}\",state=\"{state}\"}}")
}

const SHOP: &str = "shop-with-proxy-configs";
