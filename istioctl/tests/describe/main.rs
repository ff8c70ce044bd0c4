//! Terminal sessions of `istioctl x describe pod -f`, and agreement with `istio-init explain`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agreement;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use agreement::agreed_packets;
use e2e::skipped_tests;
use reference_pages::schema::validate;
use serde_json::{Value, json};
use tempfile::TempDir;

#[test]
fn workloads_of_files_are_injected_and_described() {
    let folder = TempDir::new().unwrap();
    let mut shown = String::new();
    for (name, text) in FILES {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let ran = describe(&path, &[]);
        let text = format!("{}{}", lossy(&ran.stdout), lossy(&ran.stderr));
        let text = text.replace(folder.path().to_str().unwrap(), "DIR");
        writeln!(shown, "$ istioctl x describe pod -f {name}\n{text}").unwrap();
    }
    insta::assert_snapshot!("files", shown);
}

#[test]
fn packets_of_files_agree_with_istio_init() {
    let folder = TempDir::new().unwrap();
    let mut compared = 0;
    for (name, text) in FILES {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let ran = describe(&path, &["-o", "json"]);
        if ran.status.success() {
            let described = serde_json::from_slice(&ran.stdout).unwrap();
            validate(&described, &schema()).unwrap();
            compared += agreed_packets(&described);
        }
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn pods_of_istio_are_described_and_agree_with_istio_init() {
    let Some(cases) = std::env::var_os("ISTIO_CASES").map(PathBuf::from) else {
        skipped_tests::record("describe of Istio's pods", "ISTIO_CASES is not set").unwrap();
        return;
    };
    let folder = TempDir::new().unwrap();
    let (mut shown, mut compared) = (String::new(), 0);
    for (name, pod) in injected_pods(&cases) {
        let path = folder.path().join(format!("{}.json", name.replace('/', "-")));
        fs::write(&path, pod.to_string()).unwrap();
        let ran = describe(&path, &["-o", "json"]);
        assert!(ran.status.success(), "{name}: {}", lossy(&ran.stderr));
        let described: Value = serde_json::from_slice(&ran.stdout).unwrap();
        validate(&described, &schema()).unwrap();
        compared += agreed_packets(&described);
        if SHOWN.contains(&name.as_str()) {
            let text = lossy(&describe(&path, &[]).stdout);
            writeln!(shown, "# {name}\n{text}").unwrap();
        }
    }
    assert!(compared > 300, "{compared}");
    insta::assert_snapshot!("istio", shown);
}

#[test]
fn yaml_has_the_value_of_json() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("failing.yaml");
    fs::write(&path, FAILING).unwrap();
    let [json, yaml] = ["json", "yaml"].map(|form| describe(&path, &["-o", form]).stdout);
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json[0]["state"]["failing"][0]["message"], "no database");
    assert_eq!(documents::yaml::parse(&lossy(&yaml)).unwrap(), json);
}

/// Pods that Istio's webhook injected, with the names of their cases.
fn injected_pods(cases: &Path) -> Vec<(String, Value)> {
    let mut pods = Vec::new();
    for case in fs::read_dir(cases).unwrap() {
        let case = case.unwrap();
        let Ok(reviews) = fs::read_dir(case.path().join("webhook")) else { continue };
        for review in reviews {
            let review = review.unwrap().path();
            let file = review.file_name().unwrap().to_str().unwrap();
            if let Some(number) = file.strip_suffix(".expected.json") {
                let mut pod: Value = serde_json::from_slice(&fs::read(&review).unwrap()).unwrap();
                pod["apiVersion"] = json!("v1");
                pod["kind"] = json!("Pod");
                pods.push((format!("{}/{number}", case.file_name().to_str().unwrap()), pod));
            }
        }
    }
    pods.sort_by(|one, other| one.0.cmp(&other.0));
    pods
}

/// Published schema of `-o json`.
fn schema() -> Value {
    let text = include_str!("../../../docs/schemas/describe-pod.schema.json");
    serde_json::from_str(text).unwrap()
}

fn describe(file: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_istioctl"));
    command.args(["x", "describe", "pod", "-f"]).arg(file).args(flags);
    command.env_remove("KUBECONFIG").env("HOME", "/nowhere").output().unwrap()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Cases of Istio whose descriptions are in the snapshot.
const SHOWN: [&str; 5] =
    ["hello-tproxy/00", "hello.cni/00", "gateway/00", "grpc-agent/00", "traffic-annotations/00"];

const FILES: [(&str, &str); 10] = [
    (
        "rejected.yaml",
        r"
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    traffic.sidecar.istio.io/includeInboundPorts: http
    sidecar.istio.io/proxyCPU: many
spec: {containers: [{name: web, image: web}]}
",
    ),
    ("web.yaml", WEB),
    ("ranges.yaml", RANGES),
    ("tproxy.yaml", TPROXY),
    ("mistakes.yaml", MISTAKES),
    ("host.yaml", HOST),
    ("sctp.yaml", SCTP),
    ("requested.yaml", REQUESTED),
    ("failing.yaml", FAILING),
    ("empty.yaml", "kind: Service\napiVersion: v1\n"),
];

const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata: {labels: {app: web, version: v1}}
    spec:
      containers:
      - name: app
        image: app
        ports: [{containerPort: 8080, name: http}, {containerPort: 9090, protocol: UDP}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: http}
  - {name: grpc-admin, port: 8443}
";

const RANGES: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: ranges
  namespace: shop
  labels: {app: ranges}
  annotations:
    traffic.sidecar.istio.io/includeOutboundIPRanges: 10.96.0.0/12,10.0.0.0/16
    traffic.sidecar.istio.io/excludeOutboundIPRanges: 10.96.0.1/32
    traffic.sidecar.istio.io/excludeOutboundPorts: '5432'
    traffic.sidecar.istio.io/includeOutboundPorts: '443'
    proxy.istio.io/config: '{proxyMetadata: {ISTIO_META_DNS_CAPTURE: \"true\"}}'
spec:
  securityContext: {runAsUser: 1000, runAsGroup: 1000}
  containers: [{name: app, image: app}]
";

const TPROXY: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: tproxy
  labels: {app: tproxy, version: v1}
  annotations:
    sidecar.istio.io/interceptionMode: TPROXY
    traffic.sidecar.istio.io/includeInboundPorts: '8080'
spec:
  containers: [{name: app, image: app, ports: [{containerPort: 8080}, {containerPort: 8081}]}]
";

const MISTAKES: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: mistakes
  namespace: shop
  labels: {app: mistakes, version: v1}
  annotations: {traffic.sidecar.istio.io/excludeInboundPorts: '8080'}
spec:
  containers:
  - name: app
    image: app
    ports: [{containerPort: 8080}, {containerPort: 15001}]
    securityContext: {runAsUser: 1337, capabilities: {add: [NET_ADMIN]}}
";

/// An injected pod whose capture is requested of a CNI plugin, with fewer exclusions than Istio's plugin has.
const REQUESTED: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: requested
  namespace: shop
  labels: {app: requested, version: v1}
  annotations:
    sidecar.istio.io/status: '{\"initContainers\":[\"istio-validation\"],\"containers\":[\"istio-proxy\"]}'
    sidecar.outrigger.io/capture: '{\"args\":[\"-i\",\"10.0.0.0/8\",\"-b\",\"*\",\"--run-validation\",\"--skip-rule-apply\"]}'
spec:
  initContainers:
  - name: istio-validation
    image: istio-init
    args: [-i, 10.0.0.0/8, -b, '*', --run-validation, --skip-rule-apply]
  containers: [{name: app, image: app}, {name: istio-proxy, image: proxyv2, args: [proxy, sidecar]}]
";

const SCTP: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: amf, namespace: shop, labels: {app: amf, version: v1}}
spec:
  containers: [{name: amf, image: amf, ports: [{name: n2, containerPort: 38412, protocol: SCTP}]}]
---
apiVersion: v1
kind: Service
metadata: {name: amf, namespace: shop}
spec: {selector: {app: amf}, ports: [{name: n2, port: 38412, protocol: SCTP}]}
";

/// A pod whose init container failed, as `kubectl get -o yaml` prints it.
const FAILING: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: failing, namespace: shop, labels: {app: failing, version: v1}}
spec:
  hostNetwork: true
  initContainers: [{name: migrate, image: migrate}]
  containers: [{name: app, image: app}]
status:
  phase: Pending
  conditions:
  - {type: Ready, status: 'False', message: 'containers with unready status: [app]'}
  initContainerStatuses:
  - name: migrate
    restartCount: 2
    state: {waiting: {reason: CrashLoopBackOff, message: back-off 20s}}
    lastState: {terminated: {reason: Error, exitCode: 1, message: no database}}
  containerStatuses:
  - {name: app, restartCount: 0, state: {waiting: {reason: PodInitializing}}}
";

const HOST: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: host, namespace: shop}
spec: {hostNetwork: true, containers: [{name: app, image: app}]}
";
