//! `istioctl x precheck` with the API server.

use std::fmt::Write;

use e2e::api_servers::ApiServers;
use e2e::wait::until;
use serde_json::{Value, json};

use crate::shop::Shop;

pub(crate) fn lists_lost_objects(server: &ApiServers) {
    let shop = Shop::open(server, "precheck");
    for name in ["moves", "stays"] {
        shop.namespace(name, &json!({}));
    }
    let control_plane = shop.fixture.namespace.clone();
    let mut shown = String::new();
    let mut session = |shop: &Shop<'_>, args: &str| {
        let words: Vec<_> = args.split_whitespace().collect();
        let (code, output, messages) = shop.istioctl(&[&["x", "precheck"], &words[..]].concat());
        let messages = Shop::shown(&messages, server.admin_kubeconfig().to_str().unwrap());
        let code = code.unwrap();
        writeln!(shown, "$ precheck {args}\n{output}{messages}exit {code}\n").unwrap();
    };
    // The cluster does not know the kinds.
    session(&shop, "-n moves");
    for (group, kind, plural, version) in KINDS {
        shop.fixture.apply(&definition(group, kind, plural, version));
    }
    let objects = [
        ("moves", "AuthorizationPolicy", "web", json!({"action": "DENY", "rules": [{}]})),
        ("moves", "AuthorizationPolicy", "nothing", json!({})),
        ("moves", "VirtualService", "web", json!({"hosts": ["web"]})),
        ("stays", "VirtualService", "api", json!({"hosts": ["api"]})),
        (&control_plane, "AuthorizationPolicy", "mesh", json!({"action": "DENY", "rules": [{}]})),
        (&control_plane, "VirtualService", "edge", json!({"hosts": ["edge"]})),
    ];
    for (namespace, kind, name, spec) in objects {
        let (group, _, _, version) = KINDS.iter().find(|(_, known, ..)| *known == kind).unwrap();
        let object = json!({"apiVersion": format!("{group}/{version}"), "kind": kind,
            "metadata": {"name": name, "namespace": namespace}, "spec": spec});
        until("the definition is established", || shop.fixture.try_apply(&object)).unwrap();
    }
    session(&shop, "-n moves");
    session(&shop, "-n stays -o yaml");
    session(&shop, "-n empty");
    insta::assert_snapshot!("precheck", shown);

    // All namespaces: other stories have no such objects.
    let (code, output, _) = shop.istioctl(&["x", "precheck", "-o", "json"]);
    let all: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, all.as_array().unwrap().len()), (Some(1), 6), "{output}");
    let schema = include_str!("../../../docs/schemas/precheck.schema.json");
    let schema = serde_json::from_str(schema).unwrap();
    assert_eq!(reference_pages::schema::validate(&all, &schema), Ok(()));

    // A kind that may not be listed is no kind without objects.
    let (code, output, messages) =
        shop.istioctl(&["x", "precheck", "-n", "moves", "--as", "nobody"]);
    assert_eq!((code, output.as_str()), (Some(1), ""), "{messages}");
    assert!(
        messages.contains("listing authorizationpolicies.security.istio.io of moves"),
        "{messages}"
    );
    for (_, _, plural, _) in KINDS {
        shop.kubectl(&["delete", "crd", "--wait", plural], "");
    }
}

fn definition(group: &str, kind: &str, plural: &str, version: &str) -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": plural},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural.split('.').next().unwrap()},
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": any}}],
        },
    })
}

const KINDS: [(&str, &str, &str, &str); 2] = [
    (
        "security.istio.io",
        "AuthorizationPolicy",
        "authorizationpolicies.security.istio.io",
        "v1beta1",
    ),
    ("networking.istio.io", "VirtualService", "virtualservices.networking.istio.io", "v1"),
];
