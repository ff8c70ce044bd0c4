//! Flags about user, selection and output on a real API server, and `istioctl version` with it.

use std::fmt::Write;
use std::fs;

use e2e::api_servers::ApiServers;
use e2e::wait;
use reference_pages::schema::validate;
use serde_json::{Value, json};

use crate::shop::Shop;

pub(crate) fn impersonates_users_and_groups(server: &ApiServers) {
    let shop = Shop::open(server, "as");
    for (kind, name) in [("User", "jane"), ("Group", "readers")] {
        let rights = ["list", "get"];
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "as-reader"},
            "rules": [
                {"apiGroups": [""], "resources": ["namespaces", "pods", "configmaps"], "verbs": rights},
                {"apiGroups": ["admissionregistration.k8s.io"],
                 "resources": ["mutatingwebhookconfigurations"], "verbs": rights},
            ],
        });
        shop.fixture.apply(&role);
        let list = |flags: &[&str]| {
            let (code, _, messages) = shop.istioctl(&[flags, &["x", "injector", "list"]].concat());
            (code.unwrap(), messages)
        };
        let flags = match kind {
            "User" => &["--as", "jane"][..],
            _ => {
                &["--as", "john", "--as-group", "writers", "--as-group", "readers", "--as-uid", "7"]
            }
        };
        let (code, messages) = list(flags);
        assert_eq!(code, 1, "{messages}");
        let user = format!(
            "{}, server https://",
            flags.chunks(2).map(|it| it.join(" ")).collect::<Vec<_>>().join(", ")
        );
        assert!(messages.contains(&user), "{messages}");
        assert!(
            messages.contains(&format!("User \"{}\" cannot list resource", flags[1])),
            "{messages}"
        );
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("as-{name}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "as-reader"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}],
        });
        shop.fixture.apply(&binding);
        // The authorizer learns of the binding by a watch.
        let listed = || match list(flags) {
            (0, _) => Ok(()),
            (_, messages) => Err(messages),
        };
        wait::until("the rights apply", listed).unwrap();
        shop.fixture.delete(&binding);
    }
    let (code, _, messages) = shop.istioctl(&["--as-group", "readers", "tag", "list"]);
    assert_eq!(code, Some(2), "{messages}");
}

pub(crate) fn selects_by_sets_of_labels(server: &ApiServers) {
    let mut shop = Shop::open(server, "select");
    let injector = shop.fixture.start(&["--enable-native-sidecars", "true"]);
    shop.hook(&injector);
    shop.namespace("select", &json!({}));
    for name in ["web", "api", "jobs"] {
        let labels = json!({"metadata": {"labels": {"app": name}}});
        shop.pod("select", name, &labels);
    }
    let mut shown = String::new();
    for args in [
        &["injector", "list", "-n", "select", "-l", "app in (web,api)"][..],
        &["injector", "list", "-n", "select", "-l", "!app"],
        &["injector", "list", "-n", "select", "-l", "app in (web"],
        &["check-inject", "-n", "select", "--selector", "app notin (jobs),app"],
        &["check-inject", "-A", "--selector", "app=nobody"],
        &["check-inject", "-n", "select", "-l", "app in (web,api)"],
        &["check-inject", "-A", "web"],
    ] {
        let (code, output, messages) = shop.istioctl(&[&["x"], args].concat());
        let messages = Shop::shown(&messages, server.admin_kubeconfig().to_str().unwrap());
        let args = args.join(" ");
        writeln!(shown, "$ {args}\n{output}{messages}exit {}\n", code.unwrap()).unwrap();
    }
    insta::assert_snapshot!("selectors", shown);
}

pub(crate) fn version_counts_images(server: &ApiServers) {
    let mut shop = Shop::open(server, "version");
    let control_plane = shop.fixture.namespace.clone();
    let container =
        |name: &str, image: &str| json!({"spec": {"containers": [{"name": name, "image": image}]}});
    let labels = |app: &str, revision: &str| json!({"metadata": {"labels": {"app": app, "istio.io/rev": revision}}});
    for (name, image, app, revision) in [
        ("istiod-1", "docker.io/istio/pilot:1.28.0", "istiod", "default"),
        ("injector-1", "localhost/outrigger/sidecar-injector:0.1.0", "sidecar-injector", "canary"),
        ("injector-2", "localhost/outrigger/sidecar-injector:0.1.0", "sidecar-injector", "canary"),
    ] {
        let mut pod = container("app", image);
        injector::kubernetes::merge::merge(&mut pod, labels(app, revision)).unwrap();
        shop.pod(&control_plane, name, &pod);
    }
    shop.namespace("version", &json!({}));
    for (name, image) in [
        ("a", "istio/proxyv2:1.27.1"),
        ("b", "istio/proxyv2:1.28.0"),
        ("c", "istio/proxyv2:1.28.0"),
    ] {
        shop.pod("version", name, &container("istio-proxy", image));
    }
    let mut shown = String::new();
    for args in [
        &[][..],
        &["--short=false"],
        &["-o", "short"],
        &["-o", "json"],
        &["-o", "yaml"],
        &["--remote=false"],
        &["--as", "nobody", "--remote"],
    ] {
        let (code, output, messages) = shop.istioctl(&[&["version"], args].concat());
        let messages = Shop::shown(&messages, server.admin_kubeconfig().to_str().unwrap());
        let args = args.join(" ");
        writeln!(shown, "$ version {args}\n{output}{messages}exit {}\n", code.unwrap()).unwrap();
    }
    let (code, output, messages) = shop.istioctl_of("default", &["version"]);
    let messages = Shop::shown(&messages, server.admin_kubeconfig().to_str().unwrap());
    writeln!(shown, "$ -i default version\n{output}{messages}exit {}\n", code.unwrap()).unwrap();
    insta::assert_snapshot!("version", shown);
}

pub(crate) fn outputs_match_their_schemas(server: &ApiServers) {
    let mut shop = Shop::open(server, "schemas");
    let injector = shop.fixture.start(&["--enable-native-sidecars", "true"]);
    shop.namespace("schemas", &json!({"istio.io/rev": "stable"}));
    shop.pod("schemas", "early", &json!({}));
    shop.hook(&injector);
    for (schema, args) in [
        ("tag-set", &["tag", "set", "stable", "--revision", "default"][..]),
        ("tag-list", &["tag", "list"]),
        ("check-inject", &["x", "check-inject", "early.schemas"]),
        ("injector-list", &["x", "injector", "list"]),
        ("analysis", &["analyze", "-A"]),
        ("version", &["version"]),
        ("tag-remove", &["tag", "remove", "stable", "-y"]),
    ] {
        let (code, output, messages) = shop.istioctl(&[args, &["-o", "json"]].concat());
        assert!(matches!(code, Some(0 | 79)), "{args:?}: {messages}");
        let value: Value = serde_json::from_str(&output).unwrap();
        assert_ne!(value, json!([]), "{args:?}");
        let file = format!("{}/../docs/schemas/{schema}.schema.json", env!("CARGO_MANIFEST_DIR"));
        let schema = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(validate(&value, &schema), Ok(()), "{args:?}: {value:#}");
    }
}
