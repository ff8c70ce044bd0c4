//! `istioctl x describe pod` and the pictures of `check-inject`, with the API server.

use std::fmt::Write as _;

use e2e::api_servers::ApiServers;
use serde_json::{Value, json};

use crate::shop::Shop;

pub(crate) fn describes_a_pod(server: &ApiServers) {
    let mut shop = Shop::open(server, "describe");
    let injector = shop.fixture.start(&["--enable-native-sidecars", "true"]);
    shop.namespace("described", &json!({}));
    shop.pod("described", "early", &json!({}));
    shop.namespace("described", &json!({"istio-injection": "enabled"}));
    shop.hook(&injector);
    shop.fixture.apply(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "described"},
        "spec": {
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
        },
    }));
    shop.pod(
        "described",
        "web",
        &json!({
            "metadata": {
                "labels": {"app": "web"},
                "annotations": {
                    "traffic.sidecar.istio.io/excludeOutboundIPRanges": "10.96.0.0/12",
                    "traffic.sidecar.istio.io/excludeInboundPorts": "9090",
                },
            },
            "spec": {"containers": [
                {"name": "app", "image": "app", "ports": [{"containerPort": 8080}]},
            ]},
        }),
    );
    for (name, label) in [("web", "web"), ("idle", "idle")] {
        let labels = json!({"app": label});
        let container = json!({"name": "app", "image": "app"});
        shop.fixture.apply(&json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "described"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }));
    }
    let addresses = json!({"status": {
        "phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
    }});
    let patch = addresses.to_string();
    let status = ["--subresource", "status", "--type", "merge", "-p", patch.as_str()];
    shop.kubectl(&[&["patch", "pod", "web", "-n", "described"][..], &status].concat(), "");
    let mut shown = String::new();
    for args in [
        &["web.described"][..],
        &["early", "-n", "described"],
        &["gone.described"],
        &["deploy/idle.described"],
        &["service/web.described"],
    ] {
        let (code, output, messages) = shop.istioctl(&[&["x", "describe", "pod"], args].concat());
        let messages = Shop::shown(&messages, server.admin_kubeconfig().to_str().unwrap());
        let (args, code) = (args.join(" "), code.unwrap());
        writeln!(shown, "$ describe pod {args}\n{output}{messages}exit {code}\n").unwrap();
    }
    insta::assert_snapshot!("describe", shown);
    let json = shop.output(&["x", "describe", "pod", "deployment/web.described", "-o", "json"]);
    let described: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(described[0]["capture"]["families"], json!(["IPv4"]));

    for (form, start) in [("svg", "<svg "), ("mermaid", "flowchart LR\n")] {
        let args = ["x", "check-inject", "web.described", "-o", form];
        let picture = shop.output(&args);
        assert!(picture.starts_with(start) && picture.contains("istio-proxy"), "{picture}");
    }
    let remains = ["service/web", "deployment/web", "deployment/idle", "-n", "described"];
    shop.kubectl(&[&["delete"][..], &remains].concat(), "");
}
