//! `istioctl experimental` with the API server.

use std::fmt::Write;

use e2e::api_servers::ApiServers;
use serde_json::{Value, json};

use crate::shop::{Shop, of_deployment};

pub(crate) fn lists_pods_to_restart(server: &ApiServers) {
    let mut shop = Shop::open(server, "list");
    let injector = shop.fixture.start(&["--enable-native-sidecars", "true"]);
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
    insta::assert_snapshot!("list", shop.output(&["x", "injector", "list"]));

    // The list has only this namespace, but all injectors.
    let shown = shop.output(&["x", "injector", "list", "-n", "billing"]);
    assert!(shown.contains("billing    MISSING/gone") && !shown.contains("early"), "{shown}");
    assert!(shown.contains("hooks-list") && !shown.contains("\nquiet"), "{shown}");
    let (code, output, messages) = shop.istioctl(&["x", "injector", "list", "-n", "gone"]);
    assert_eq!((code, output.as_str()), (Some(1), ""));
    let messages = Shop::shown(&messages, server.admin_kubeconfig().to_str().unwrap());
    let expected =
        "error: --kubeconfig FILE, server https://SERVER/: --namespace gone: no such namespace\n";
    assert_eq!(messages, expected);

    // A new configuration makes current pods stale, because their image differs from the new one.
    shop.configure("global: {hub: registry.example, tag: 9.9.9}");
    insta::assert_snapshot!("list_of_stale", shop.output(&["experimental", "injector", "list"]));

    let listed: Value =
        serde_json::from_str(&shop.output(&["x", "injector", "list", "-o", "json"])).unwrap();
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

pub(crate) fn explains_a_pod(server: &ApiServers) {
    let mut shop = Shop::open(server, "why");
    let injector = shop.fixture.start(&["--enable-native-sidecars", "true"]);
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
    shop.fixture.apply(&deployment);
    let mut shown = String::new();
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
        let messages = Shop::shown(&messages, server.admin_kubeconfig().to_str().unwrap());
        let args = args.join(" ");
        writeln!(shown, "$ check-inject {args}\n{output}{messages}exit {code}\n").unwrap();
    }
    insta::assert_snapshot!("why", shown);

    let (code, _, messages) = shop.istioctl_of("nowhere", &["x", "check-inject", "early.why"]);
    assert_eq!(code, Some(0));
    assert!(
        messages.contains("ConfigMap nowhere/istio-sidecar-injector, config: missing"),
        "{messages}"
    );
    let (code, _, messages) = shop.istioctl(&["--context", "other", "x", "injector", "list"]);
    assert_eq!(code, Some(1));
    assert!(messages.contains("--context `other`: no such context in --kubeconfig "), "{messages}");
    shop.kubectl(&["delete", "deployment", "agent", "-n", "why"], "");
}

/// Checks every combination of the labels in Istio's selectors.
pub(crate) fn matches_the_api_server(server: &ApiServers) {
    let shop = Shop::open(server, "grid");
    let injector = shop.fixture.start(&["--enable-native-sidecars", "true"]);
    shop.hook(&injector);
    shop.hook_canary(&injector);
    let namespaces = [
        json!({}),
        json!({"istio-injection": "enabled"}),
        json!({"istio-injection": "disabled"}),
        json!({"istio.io/rev": "default"}),
        json!({"istio.io/rev": "canary"}),
        json!({"istio-injection": "enabled", "istio.io/rev": "canary"}),
    ];
    let labels = [
        "app=web",
        "app=web,sidecar.istio.io/inject=true",
        "app=web,sidecar.istio.io/inject=false",
        "app=web,istio.io/rev=default",
        "app=web,istio.io/rev=canary",
        "app=web,sidecar.istio.io/inject=true,istio.io/rev=canary",
        "app=web,sidecar.istio.io/inject=yes",
    ];
    let mut grid = String::new();
    for (row, namespace) in namespaces.iter().enumerate() {
        let name = format!("grid-{row}");
        shop.namespace(&name, namespace);
        let created = created(&shop, &name, &labels);
        writeln!(grid, "{namespace}").unwrap();
        for (labels, created) in labels.iter().zip(created) {
            let shown =
                shop.output(&["x", "check-inject", "-n", &name, "-l", labels, "-o", "json"]);
            let report: Value = serde_json::from_str(&shown).unwrap();
            let webhooks = report[0]["webhooks"].as_array().unwrap();
            let by = webhooks.iter().filter(|one| one["injected"] == true);
            let by: Vec<_> = by.map(|one| one["revision"].as_str().unwrap()).collect();
            assert_eq!(!by.is_empty(), created, "{namespace} {labels}: {report}");
            assert_eq!(report[0]["overlap"], false, "{namespace} {labels}: {report}");
            writeln!(grid, "  {labels}: {}", by.join(" and ")).unwrap();
        }
    }
    insta::assert_snapshot!("grid", grid);
}

/// Returns for each set of labels whether the API server's pod is injected.
fn created(shop: &Shop<'_>, namespace: &str, labels: &[&str]) -> Vec<bool> {
    let pod = |(index, labels): (usize, &&str)| {
        let labels = labels.split(',').map(|pair| pair.split_once('=').unwrap());
        let labels: std::collections::BTreeMap<_, _> = labels.collect();
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("p{index}"), "namespace": namespace, "labels": labels},
            "spec": {
                "serviceAccountName": "default",
                "containers": [{"name": "app", "image": "app"}],
            },
        })
    };
    let pods: Vec<_> = labels.iter().enumerate().map(pod).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": pods}).to_string();
    let created = shop.kubectl(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &list);
    // The output is a sequence of documents.
    let created = serde_json::Deserializer::from_str(&created).into_iter::<Value>();
    let created: Vec<_> = created
        .map(Result::unwrap)
        .map(|pod| !pod["metadata"]["annotations"]["sidecar.istio.io/status"].is_null())
        .collect();
    assert_eq!(created.len(), labels.len());
    created
}
