//! `istioctl x check-inject` for manifests that are not applied yet.

use std::fmt::Write;
use std::fs;

use documents::yaml;
use e2e::api_servers::ApiServers;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::shop::Shop;

pub(crate) fn reads_files(server: &ApiServers) {
    let shop = Shop::open(server, "files");
    let injector = shop.fixture.start(&["--enable-native-sidecars", "true"]);
    shop.namespace("files", &json!({"istio-injection": "enabled"}));
    let directory = TempDir::new().unwrap();
    for (name, text) in FILES {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut shown = String::new();
    let mut session = |args: &[&str]| {
        let paths = args.iter().map(|arg| match arg.strip_prefix("DIR/") {
            Some(name) => directory.path().join(name).to_str().unwrap().to_owned(),
            None => (*arg).to_owned(),
        });
        let paths: Vec<_> = paths.collect();
        let given = paths.iter().map(String::as_str);
        let given: Vec<_> = ["x", "check-inject"].into_iter().chain(given).collect();
        let (code, output, messages) = shop.istioctl(&given);
        let messages = Shop::shown(&messages, server.admin_kubeconfig().to_str().unwrap());
        let text = format!("{output}{messages}exit {}", code.unwrap());
        let text = text.replace(directory.path().to_str().unwrap(), "DIR");
        writeln!(shown, "$ check-inject {}\n{text}\n", args.join(" ")).unwrap();
        output
    };
    session(&["-f", "DIR/web.yaml", "-n", "files"]);
    shop.hook(&injector);
    session(&["-f", "DIR/web.yaml", "-n", "files"]);
    session(&["-f", "DIR/more", "-R"]);
    session(&["-f", "DIR/services.yaml"]);
    session(&["-f", "DIR/wrong.yaml"]);
    let json = session(&["-f", "DIR/web.yaml", "-n", "files", "-o", "json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report[0]["webhooks"][0]["injection"]["containers"][1]["name"], "istio-proxy");
    let web = directory.path().join("web.yaml");
    let diff = ["x", "check-inject", "-n", "files", "--diff", "-f", web.to_str().unwrap()];
    let diff = shop.output(&diff);
    assert!(diff.starts_with("--- a/Deployment/files/web\n"), "{diff}");
    assert!(diff.contains("\n+    name: istio-proxy\n"), "{diff}");
    assert!(diff.lines().all(|line| !line.starts_with("-  ")), "{diff}");

    // A second webhook without selectors, with a condition that only the API server evaluates.
    let mut second = yaml::parse(include_str!("../../../manifests/base/webhook.yaml")).unwrap();
    let mut entry = second["webhooks"][0].take();
    for selector in ["namespaceSelector", "objectSelector"] {
        entry[selector] = json!({"matchLabels": {}});
    }
    entry["failurePolicy"] = "Ignore".into();
    entry["matchConditions"] =
        json!([{"name": "not-me", "expression": "request.userInfo.username  != 'me'"}]);
    second["webhooks"] = json!([entry]);
    second["metadata"] =
        json!({"name": "hooks-files-canary", "labels": {"istio.io/rev": "canary"}});
    shop.fixture.apply(&second);
    session(&["-f", "DIR/web.yaml", "-n", "files"]);
    insta::assert_snapshot!("files", shown);
}

const FILES: [(&str, &str); 5] = [
    ("web.yaml", WEB),
    ("more/jobs.yaml", JOBS),
    ("more/deep/rollout.json", ROLLOUT),
    ("services.yaml", "kind: Service\napiVersion: v1\n"),
    ("wrong.yaml", "kind: Pod\napiVersion: v1\nmetadata: {name: a, name: b}\n"),
];

const WEB: &str = "\
# The shop.
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: app, image: app}]
";

const JOBS: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: not-yet, labels: {istio.io/rev: default}}
---
apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: CronJob
  metadata: {name: night, namespace: not-yet}
  spec: {jobTemplate: {spec: {template: {spec: {hostNetwork: true, containers: []}}}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: out, namespace: not-yet, labels: {sidecar.istio.io/inject: 'false'}}
  spec: {containers: []}
";

const ROLLOUT: &str = r#"{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
  "metadata": {"name": "slow", "namespace": "nowhere"},
  "spec": {"template": {"spec": {"containers": []}}}}
"#;
