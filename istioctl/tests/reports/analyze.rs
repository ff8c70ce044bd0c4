//! `istioctl analyze` with the API server and with files alone.

use std::fmt::Write;
use std::fs;

use e2e::api_servers::ApiServers;
use e2e::wait::until;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::shop::Shop;

pub(crate) fn reports_injection(server: &ApiServers) {
    let mut shop = Shop::open(server, "analyze");
    let injector = shop.fixture.start(&["--enable-native-sidecars", "true"]);
    shop.namespace("analyze-bare", &json!({}));
    shop.namespace("analyze", &json!({}));
    shop.pod("analyze", "early", &json!({}));
    let quiet =
        json!({"metadata": {"annotations": {"galley.istio.io/analyze-suppress": "IST0103"}}});
    shop.pod("analyze", "quiet", &quiet);
    shop.namespace("analyze", &json!({"istio-injection": "enabled"}));
    shop.hook(&injector);
    shop.pod("analyze", "late", &json!({}));
    let directory = TempDir::new().unwrap();
    for (name, text) in FILES {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let mut shown = String::new();
    let mut session = |args: &str| {
        let given = args.replace("DIR", directory.path().to_str().unwrap());
        let words = given.split(' ').filter(|word| !word.is_empty());
        // A space in an argument stands as `+`.
        let words: Vec<_> = words.map(|word| word.replace('+', " ")).collect();
        let words = ["analyze"].into_iter().chain(words.iter().map(String::as_str));
        let (code, output, messages) = shop.istioctl(&words.collect::<Vec<_>>());
        let messages = Shop::shown(&messages, server.admin_kubeconfig().to_str().unwrap());
        let text = format!("{output}{messages}exit {}", code.unwrap());
        let text = text.replace(directory.path().to_str().unwrap(), "DIR");
        writeln!(shown, "$ analyze {args}\n{text}\n").unwrap();
        output
    };
    session("--list-analyzers");
    session("-n analyze-bare");
    session("-n analyze-bare --output-threshold Warning");
    session("-n analyze");
    session("-n analyze --failure-threshold warning --output-threshold Warning");
    session("-n analyze --output-threshold Warning -S IST0103=Pod+*.analyze");
    // Objects of files count as if they were applied.
    session("-n analyze-bare --output-threshold Warning DIR/gateway.yaml");
    session("-n analyze-bare --output-threshold Warning DIR/gateway.yaml DIR/namespace.yaml");
    session("--use-kube=false DIR");
    let json = session("--use-kube=false -n analyze-bare -o json DIR/gateway.yaml");
    let messages: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(messages[0]["code"], "IST0146");
    session("--use-kube=false -n analyze-bare -o yaml DIR/gateway.yaml");
    session("--use-kube=false DIR/namespace.yaml -n other");
    session("--use-kube=false DIR/services.yaml");
    session("--use-kube=false DIR/policies.yaml");
    // The messages about readable files are printed.
    session("--use-kube=false DIR/denied.yaml DIR/gone.yaml DIR/broken.txt DIR/others.yaml");
    session("-n analyze-bare --output-threshold Warning DIR/denied.yaml");
    session("-n no-such-namespace");
    session("--use-kube=false");
    session("--use-kube=false DIR/gone.yaml");
    session("--failure-threshold Fatal");
    session("-S IST0103");
    insta::assert_snapshot!("analyze", shown);

    // A policy of the cluster.
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/mesh/crds.yaml");
    shop.kubectl(&["apply", "-f", crds], "");
    let policy = json!({
        "apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication",
        "metadata": {"name": "ports", "namespace": "analyze-bare"},
        "spec": {"portLevelMtls": {"8080": {"mode": "STRICT"}}},
    });
    until("the definition is established", || shop.fixture.try_apply(&policy)).unwrap();
    let (_, output, messages) =
        shop.istioctl(&["analyze", "-n", "analyze-bare", "--output-threshold", "Warning"]);
    let expected = "Warning [OUT0202] (PeerAuthentication analyze-bare/ports) portLevelMtls has no";
    assert!(output.starts_with(expected), "{output}{messages}");
    shop.kubectl(&["delete", "-f", crds], "");

    // Stale images, and all namespaces.
    shop.configure("global: {hub: registry.example, tag: 9.9.9}");
    let (code, output, _) = shop.istioctl(&["analyze", "-A", "--output-threshold", "Warning"]);
    // Other stories leave a namespace whose revision does not exist.
    let expected = if output.contains("Error [") { 79 } else { 0 };
    assert_eq!(code, Some(expected), "{output}");
    assert!(output.contains("Warning [IST0103] (Pod analyze/early) "), "{output}");
    let stale = output.lines().find(|line| line.contains("[IST0158] (Namespace analyze) "));
    assert!(stale.is_some_and(|line| line.contains("(pod names: [late])")), "{output}");
}

const FILES: [(&str, &str); 8] = [
    ("policies.yaml", POLICIES),
    ("gateway.yaml", GATEWAY),
    ("namespace.yaml", NAMESPACE),
    ("services.yaml", "kind: Service\napiVersion: v1\n"),
    ("webhooks.yaml", WEBHOOKS),
    ("denied.yaml", DENIED),
    ("broken.txt", "kind: Pod\nmetadata: [\n"),
    ("others.yaml", "kind: ConfigMap\n---\nkind: VirtualService\n---\nkind: ConfigMap\n"),
];

const GATEWAY: &str = "\
# A gateway by injection.
apiVersion: apps/v1
kind: Deployment
metadata: {name: gateway}
spec:
  template:
    metadata: {annotations: {inject.istio.io/templates: gateway}}
    spec:
      containers: [{name: istio-proxy, image: auto}]
";

const DENIED: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: denied}
spec:
  template:
    metadata:
      labels: {istio.io/rev: gone}
      annotations: {sidecar.istio.io/proxyCPU: much}
    spec: {containers: [{name: app, image: app}]}
---
apiVersion: v1
kind: Pod
metadata: {name: template, annotations: {inject.istio.io/templates: gone}}
spec: {containers: [{name: app, image: app}]}
";

const NAMESPACE: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: analyze-bare, labels: {istio-injection: enabled, istio.io/rev: canary}}
";

const POLICIES: &str = "\
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  portLevelMtls: {80: {mode: DISABLE}}
";

const WEBHOOKS: &str = include_str!("../../../manifests/base/webhook.yaml");
