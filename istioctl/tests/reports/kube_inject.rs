//! `istioctl kube-inject` with the configuration of a cluster.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use documents::yaml;
use e2e::api_servers::ApiServers;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{patched, plain_get};
use crate::command::istioctl;
use crate::objects::{GROUP, RESOURCE, definition, node, resource, with_version};
use crate::program::{Program, until};
use crate::shop::{Shop, of_deployment};

/// Checks pods that depend on every part of the cluster's state.
pub(crate) fn equals_the_webhook(server: &ApiServers) {
    let shop = Shop::open(server, "same");
    configure(&shop, "istio-sidecar-injector", CONFIG, "{}");
    let mesh = format!(
        "{{rootNamespace: {}, defaultConfig: {{proxyAdminPort: 15009}}}}",
        shop.fixture.namespace
    );
    config_map(&shop, "istio", &json!({"mesh": mesh}));
    shop.fixture.apply(&definition());
    shop.namespace(SHOP, &json!({}));
    shop.fixture.apply(&json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP, "annotations": {
            "openshift.io/sa.scc.uid-range": "1000650000/10000",
        }},
    }));
    let everywhere = json!({"concurrency": 3, "environmentVariables": {"A": "root"}});
    let in_shop = json!({"environmentVariables": {"A": "shop"}});
    let selecting = json!({
        "environmentVariables": {"B": "pod"}, "selector": {"matchLabels": {"app": "web"}},
    });
    until("the resource is served", || {
        shop.fixture
            .try_apply(&resource(&shop.fixture.namespace, "everywhere", &everywhere))
            .is_ok()
    });
    shop.fixture.apply(&resource(SHOP, "in-shop", &in_shop));
    shop.fixture.apply(&resource(SHOP, "selecting", &selecting));
    shop.fixture.apply(&resource(SHOP, "wrong", &json!({"concurrency": "many"})));
    for (name, version) in [("old", "v1.32.9"), ("new", "v1.33.0")] {
        shop.fixture.apply(&node(name));
        shop.fixture.apply_status(&with_version(name, version));
    }
    for (group, resource) in
        [("", "configmaps"), ("", "nodes"), ("", "namespaces"), (GROUP, "proxyconfigs")]
    {
        shop.fixture.allow(group, resource, &["get", "list", "watch"]);
    }
    let openshift = ["--platform", "openshift"];
    let injector = shop.fixture.start_by_config_maps(&openshift);
    until("it is ready", || plain_get(injector.admin, "/healthz/ready").status == 200);
    for resource in ["nodes", "namespaces", RESOURCE] {
        let state = format!("sidecar_injector_watch{{resource=\"{resource}\",state=\"current\"}}");
        injector.metric_becomes(&state, 1.0);
    }

    let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    for (name, more) in [
        ("plain", json!({})),
        ("selected by a resource", json!({"metadata": {"labels": {"app": "web"}}})),
        ("of the selector", json!({"metadata": {"labels": {"team": "batch"}}})),
        ("asked for", json!({"metadata": {"labels": {"team": "batch", INJECT: "true"}}})),
        ("with an alias", annotated("inject.istio.io/templates", "both")),
        ("for an old node", json!({"spec": {"nodeName": "old"}})),
        ("for a new node", json!({"spec": {"nodeName": "new"}})),
        ("with zeros", annotated(PROXY_CONFIG, "{concurrency: 0, terminationDrainDuration: 0s}")),
        ("with a port", annotated(PROXY_CONFIG, "{statusPort: 15025}")),
        ("of the node's network", json!({"spec": {"hostNetwork": true}})),
    ] {
        let mut pod = pod();
        injector::kubernetes::merge::merge(&mut pod, more).unwrap();
        let request = json!({"uid": "u", "namespace": SHOP, "object": pod});
        let response = injector.connect().review("/inject", &request);
        assert_eq!(response["allowed"], true, "{name}: {response}");
        let skipped = response["patch"].is_null();
        let expected = if skipped { pod.clone() } else { patched(&pod, &response) };
        let flags = [&openshift[..], &["-n", SHOP]].concat();
        let (code, output, messages) = shop.kube_inject(&flags, &pod.to_string());
        assert_eq!(code, Some(0), "{name}: {messages}");
        let given = yaml::parse(&output).unwrap();
        assert_eq!(given, expected, "{name}");
        let wrong = "warning: ProxyConfig shop-of-the-same/wrong is invalid and ignored: spec.concurrency: ";
        assert!(messages.starts_with(wrong), "{messages}");
        assert_eq!(skipped, ["of the selector", "of the node's network"].contains(&name), "{name}");
        assert_eq!(skipped, messages.contains("===> Skipping injection because Pod"), "{name}");
        if name == "of the selector" {
            assert!(messages.contains("(never_inject_selector)"), "{messages}");
        }
        // The state of the cluster is visible in the pod.
        let list = if name == "for a new node" { "initContainers" } else { "containers" };
        for (text, counts) in [
            ("1000659999", !skipped),
            (r#"\"A\":\"shop\""#, !skipped),
            (r#"\"B\":\"pod\""#, name == "selected by a resource"),
            (r#"\"proxyAdminPort\":15009"#, !skipped),
            ("from-template", !skipped && name != "with an alias"),
            ("example.com/injected", !skipped),
        ] {
            assert_eq!(given.to_string().contains(text), counts, "{name}: {text}");
        }
        let containers = given["spec"][list].as_array().unwrap();
        let proxy = containers.iter().any(|container| container["name"] == "istio-proxy");
        assert_eq!(proxy, !skipped, "{name}");
    }
    // A workload stands for the pods that its controllers create.
    let mut made = pod();
    made["metadata"].as_object_mut().unwrap().remove("name");
    injector::kubernetes::merge::merge(&mut made, of_deployment("web")).unwrap();
    let request = json!({"uid": "u", "namespace": SHOP, "object": made});
    let expected = patched(&made, &injector.connect().review("/inject", &request));
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": made["spec"]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web"}, "spec": {"template": template},
    });
    let flags = [&openshift[..], &["-n", SHOP]].concat();
    let (code, output, messages) = shop.kube_inject(&flags, &deployment.to_string());
    assert_eq!(code, Some(0), "{messages}");
    let given = yaml::parse(&output).unwrap();
    assert_eq!(given["spec"]["template"]["spec"], expected["spec"]);

    // The result is as without a cluster: the command's own rules apply to a file's templates.
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("config.yaml");
    fs::write(&file, CONFIG).unwrap();
    let flags = ["-n", SHOP, "--injectConfigFile", file.to_str().unwrap()];
    let of_selector = json!({"metadata": {"labels": {"team": "batch"}}});
    let mut pod = pod();
    injector::kubernetes::merge::merge(&mut pod, of_selector).unwrap();
    let (code, output, messages) = shop.kube_inject(&flags, &pod.to_string());
    assert_eq!(code, Some(0), "{messages}");
    assert!(messages.contains("neverInjectSelector: is used only by the webhook"), "{messages}");
    assert!(output.contains("15009") && !output.contains("from-template"), "{output}");

    for name in ["old", "new"] {
        shop.fixture.delete(&node(name));
    }
    shop.fixture.delete(&definition());
}

/// Documents by revision, by name, from files, and absent ones.
pub(crate) fn finds_the_configuration(server: &ApiServers) {
    let shop = Shop::open(server, "found");
    let image = |image: &str| format!("global: {{proxy: {{image: registry.example/{image}:1}}}}");
    let policy = "policy: enabled";
    configure(&shop, "istio-sidecar-injector", policy, &image("default"));
    configure(&shop, "istio-sidecar-injector-canary", policy, &image("canary"));
    configure(&shop, "mine", policy, &image("mine"));
    config_map(&shop, "istio-canary", &json!({"mesh": "{}"}));
    config_map(&shop, "incomplete", &json!({"config": policy}));
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (values, operator) = (path("values.yaml"), path("operator.yaml"));
    fs::write(&values, image("file")).unwrap();
    let head = "apiVersion: install.istio.io/v1alpha1\nkind: IstioOperator\n";
    fs::write(&operator, format!("{head}spec: {{values: {{{}}}}}\n", image("operator"))).unwrap();

    let manifest = pod().to_string();
    let found = |flags: &[&str]| {
        let native = ["--enable-native-sidecars", "true"];
        let (code, output, messages) = shop.kube_inject(&[&native, flags].concat(), &manifest);
        let summary = "standard input: 1 injected, 0 skipped, 0 skipped because of their kind\n";
        assert_eq!((code, messages.as_str()), (Some(0), summary), "{flags:?}");
        let pod = yaml::parse(&output).unwrap();
        let proxy = &pod["spec"]["initContainers"][1];
        let image = proxy["image"].as_str().unwrap();
        let image = image.strip_prefix("registry.example/").unwrap().to_owned();
        let network = &pod["metadata"]["labels"]["topology.istio.io/network"];
        let revision = pod["metadata"]["annotations"]["istio.io/rev"].as_str().unwrap().to_owned();
        (image, revision, network.as_str().unwrap_or_default().to_owned())
    };
    let is = |image: &str, revision: &str, network: &str| {
        (format!("{image}:1"), revision.to_owned(), network.to_owned())
    };
    assert_eq!(found(&[]), is("default", "default", ""));
    assert_eq!(found(&["-r", "canary"]), is("canary", "canary", ""));
    assert_eq!(found(&["--injectConfigMapName", "mine"]), is("mine", "default", ""));
    assert_eq!(found(&["--valuesFile", &values]), is("file", "default", ""));
    assert_eq!(found(&["--operatorFileName", &operator]), is("operator", "default", ""));
    let both = ["--operatorFileName", &operator, "--valuesFile", &values];
    assert_eq!(found(&both), is("file", "default", ""));

    let hooks = tagged(&shop);
    shop.fixture.apply(&hooks);
    assert_eq!(found(&[]), is("canary", "canary", "n1"));
    assert_eq!(found(&["-r", "default"]), is("default", "default", ""));

    let mut shown = String::new();
    let kubeconfig = server.admin_kubeconfig();
    for flags in [
        &["-r", "gone"][..],
        &["--injectConfigMapName", "gone"],
        &["--injectConfigMapName", "incomplete"],
        &["--meshConfigMapName", "gone"],
        &["-i", "nowhere"],
    ] {
        let (code, output, messages) = shop.kube_inject(flags, &manifest);
        assert_eq!((code, output.as_str()), (Some(1), ""), "{flags:?}");
        let messages = Shop::shown(&messages, kubeconfig.to_str().unwrap());
        writeln!(shown, "$ kube-inject {}\n{messages}", flags.join(" ")).unwrap();
    }
    shop.fixture.delete(&hooks);
    insta::assert_snapshot!("configuration_not_found", shown);
}

pub(crate) fn without_permission_warns_and_continues(server: &ApiServers) {
    let shop = Shop::open(server, "rights");
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("kubeconfig");
    fs::write(&file, shop.fixture.kubeconfig().unwrap().to_string()).unwrap();
    let kubeconfig = file.to_str().unwrap();
    let run = |flags: &[&str]| {
        let own = ["kube-inject", "-f", "-", "-c", kubeconfig, "-i", &shop.fixture.namespace];
        let (code, output, messages) = istioctl(&[&own, flags].concat(), &pod().to_string());
        (code, output, Shop::shown(&messages, kubeconfig))
    };
    let (code, output, messages) = run(&[]);
    assert_eq!((code, output.as_str()), (Some(1), ""));
    insta::assert_snapshot!("no_rights", messages);

    shop.fixture.allow("", "configmaps", &["get"]);
    let (code, output, messages) = run(&["--platform", "openshift", "-n", "shop-without-rights"]);
    assert_eq!(code, Some(0), "{messages}");
    insta::assert_snapshot!("no_rights_but_for_config_maps", messages);
    let pod = yaml::parse(&output).unwrap();
    let proxy = &pod["spec"]["initContainers"][1];
    assert_eq!(
        (&proxy["name"], &proxy["securityContext"]["runAsUser"]),
        (&json!("istio-proxy"), &json!(1337))
    );
}

/// Returns a webhook configuration of the revision `canary` for the tag `default`, which matches no
/// pod.
fn tagged(shop: &Shop<'_>) -> Value {
    let nothing = json!({"matchLabels": {"istio.io/deactivated": "never-match"}});
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {
            "name": "istio-revision-tag-default",
            "labels": {"istio.io/rev": "canary", "istio.io/tag": "default"},
        },
        "webhooks": [{
            "name": "rev.namespace.sidecar-injector.istio.io",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "namespaceSelector": nothing,
            "objectSelector": nothing,
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["pods"],
            }],
            "clientConfig": {"service": {
                "name": "istiod", "namespace": shop.fixture.namespace,
                "path": "/inject/cluster/c1/net/n1",
            }},
        }],
    })
}

fn configure(shop: &Shop<'_>, name: &str, config: &str, values: &str) {
    config_map(shop, name, &json!({"config": config, "values": values}));
}

fn config_map(shop: &Shop<'_>, name: &str, data: &Value) {
    shop.fixture.apply(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": shop.fixture.namespace},
        "data": data,
    }));
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    })
}

const CONFIG: &str = "
defaultTemplates: [sidecar, team]
templates: {team: '{metadata: {labels: {from-template: team}}}', other: '{spec: {priority: 1}}'}
aliases: {both: [sidecar, other]}
neverInjectSelector: [{matchLabels: {team: batch}}]
injectedAnnotations: {example.com/injected: 'yes'}
";

const SHOP: &str = "shop-of-the-same";
const INJECT: &str = "sidecar.istio.io/inject";
const PROXY_CONFIG: &str = "proxy.istio.io/config";

pub(crate) fn kube_inject_without_files_equals_the_webhook(_: &ApiServers) {
    let program = Program::start(&["--enable-native-sidecars", "true"]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [{"name": "app", "image": "app", "ports": [{"containerPort": 80}]}]},
    });
    let request = json!({"uid": "u", "namespace": "shop", "object": pod});
    let by_webhook = patched(&pod, &program.connect().review("/inject", &request));

    let directory = TempDir::new().unwrap();
    let file = directory.path().join("pod.json");
    fs::write(&file, pod.to_string()).unwrap();
    let mut istioctl = Command::new(env!("CARGO_BIN_EXE_istioctl"));
    let output = istioctl.args(["kube-inject", "-f"]).arg(file).env_clear().output().unwrap();
    let by_hand: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(by_webhook, by_hand);
    let containers = by_hand["spec"]["initContainers"].as_array().unwrap();
    let images: Vec<_> = containers.iter().map(|one| (&one["name"], &one["image"])).collect();
    assert_eq!(
        images,
        [
            (&json!("istio-init"), &json!("localhost/outrigger/istio-init:0.1.0")),
            (&json!("istio-proxy"), &json!("docker.io/istio/proxyv2:1.28.0")),
        ]
    );
}
