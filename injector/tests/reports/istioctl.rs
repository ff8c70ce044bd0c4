//! `istioctl experimental`, against the API server.

use std::fmt::Write;

use e2e::api_servers::ApiServers;
use serde_json::{Value, json};

use crate::shop::{Shop, of_deployment};

pub(crate) fn lists_what_needs_a_restart(server: &ApiServers) {
    let mut shop = Shop::open(server, "list");
    let injector = shop.stage.start(&["--enable-native-sidecars", "true"]);
    shop.namespace("quiet", &json!({}));
    shop.namespace("shop", &json!({}));
    shop.pod("shop", "early", &of_deployment("web"));
    shop.namespace("shop", &json!({"istio-injection": "enabled"}));
    shop.namespace("billing", &json!({"istio.io/rev": "gone"}));
    shop.hook(&injector);
    shop.pod("billing", "one", &json!({}));
    shop.pod("shop", "late", &of_deployment("web"));
    shop.pod("shop", "off", &json!({"metadata": {"labels": {"sidecar.istio.io/inject": "false"}}}));
    shop.pod("shop", "agent", &json!({"spec": {"hostNetwork": true}}));
    insta::assert_snapshot!("list", shop.told(&["x", "injector", "list"]));

    // What was current is stale by another configuration, with the pod's own image as the other.
    shop.configure("global: {hub: registry.example, tag: 9.9.9}");
    insta::assert_snapshot!("list_of_stale", shop.told(&["experimental", "injector", "list"]));

    let listed: Value =
        serde_json::from_str(&shop.told(&["x", "injector", "list", "-o", "json"])).unwrap();
    let pods = listed["pods"].as_array().unwrap();
    let states: Vec<_> = pods.iter().map(|pod| (&pod["pod"], &pod["state"])).collect();
    assert_eq!(
        states,
        [(&json!("early"), &json!("no sidecar")), (&json!("late"), &json!("stale"))]
    );
    assert_eq!(pods[1]["reasons"][0]["word"], "image_changed");
    let namespaces = listed["namespaces"].as_array().unwrap();
    let of_shop = namespaces.iter().find(|row| row["namespace"] == "shop").unwrap();
    let counts = json!({"pods": 1, "injectionDisabled": 0, "needsRestart": 1});
    assert_eq!(of_shop["pods"]["default"], counts, "{of_shop}");
    assert_eq!(listed["injectors"][0]["image"], "registry.example/proxyv2:9.9.9");
}

pub(crate) fn says_why(server: &ApiServers) {
    let mut shop = Shop::open(server, "why");
    let injector = shop.stage.start(&["--enable-native-sidecars", "true"]);
    shop.namespace("why", &json!({}));
    shop.pod("why", "early", &json!({}));
    shop.namespace("why", &json!({"istio-injection": "enabled"}));
    shop.hook(&injector);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "agent", "namespace": "why"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {"hostNetwork": true, "containers": [{"name": "app", "image": "app"}]},
        }},
    });
    shop.stage.apply(&deployment);
    let mut told = String::new();
    for args in [
        &["early", "-n", "why"][..],
        &["pod/early.why"],
        &["deployment/agent", "-n", "why"],
        &["-n", "why", "-l", "app=web,sidecar.istio.io/inject=false"],
        &["-n", "default", "-l", "app=web"],
        &["-n", "default", "-l", "app=web", "-o", "json"],
        &["nobody", "-n", "why"],
        &["service/web", "-n", "why"],
        &[],
    ] {
        let (code, output, messages) = shop.istioctl(&[&["x", "check-inject"], args].concat());
        let code = code.unwrap();
        let args = args.join(" ");
        writeln!(told, "$ check-inject {args}\n{output}{messages}exit {code}\n").unwrap();
    }
    insta::assert_snapshot!("why", told);

    let (code, _, messages) = shop.istioctl_of("nowhere", &["x", "check-inject", "early.why"]);
    assert_eq!(code, Some(0));
    assert!(
        messages.contains("ConfigMap nowhere/istio-sidecar-injector, config: missing"),
        "{messages}"
    );
    let (code, _, messages) = shop.istioctl(&["--context", "other", "x", "injector", "list"]);
    assert_eq!(code, Some(1));
    assert!(messages.contains("--context other: "), "{messages}");
    shop.kubectl(&["delete", "deployment", "agent", "-n", "why"], "");
}
