//! The agent knows every variable, argument, mount and port of the pods that the injector makes.

#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::process::Command;

use e2e::programs::Programs;
use injector::inject::{InjectError, InjectionOutcome, Target, inject};
use injector::settings::annotations::{HONOURED, key};
use injector::settings::{Document, Documents, Process, Settings};
use pilot_agent::arguments::{self, Arguments};
use pilot_agent::bootstrap::{bootstrap, command_line};
use pilot_agent::config::annotations::ANNOTATIONS;
use pilot_agent::config::{self, Config, ConfigError, Files, Inputs};
use pilot_agent::environment::{Environment, variables};
use pilot_agent::layout::{PORTS, is_known_mount};
use pilot_agent::node::Node;
use serde_json::{Value, json};

#[test]
fn agent_knows_everything_in_injected_pods() {
    let mut problems = Vec::new();
    for layout in layouts() {
        let proxy = layout.proxy();
        problems.extend(unknown_parts(&layout, &proxy));
        match layout.config(&proxy) {
            Ok(config) => problems.extend(rejected_bootstrap(&layout, &config)),
            Err(error) => problems.push(format!("{}: {error}", layout.name)),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn injected_lightstep_tracer_is_rejected_with_a_reason() {
    let layout = Layout {
        values: json!({"global": {"proxy": {"tracer": "lightstep"}}}),
        mesh: "defaultConfig: {tracing: {lightstep: {address: 'l:1', accessToken: t}}}",
        ..Layout::new("lightstep")
    };
    let error = layout.config(&layout.proxy()).unwrap_err().to_string();
    assert!(error.starts_with("PROXY_CONFIG: tracing.lightstep: "), "{error}");
}

/// Values at the borders of what either program accepts.
#[test]
fn annotations_that_are_accepted_start_the_agent() {
    let lists =
        ["", ",", "a", "a:b", "misc:debug", "misc:loud", "default:warn", "debug", "verbose"];
    let numbers = ["0", "15099", "70000", "5s", "0s", "1h", "true", "maybe", "host:1", "a b"];
    let objects = ["{}", "[1]", r#"{"a": [1, 2]}"#, r#"{"a": [2, 1]}"#, r#"{"": [1]}"#];
    let values: Vec<_> = lists.iter().chain(&numbers).chain(&objects).collect();
    let arguments = [key::LOG_LEVEL, key::COMPONENT_LOG_LEVEL, key::AGENT_LOG_LEVEL];
    let read = ANNOTATIONS.iter().map(|(key, _)| *key);
    let mut problems = Vec::new();
    for key in arguments.into_iter().chain(read) {
        let honoured = HONOURED.iter().find(|honoured| honoured.key == key);
        let kind = honoured.unwrap_or_else(|| panic!("the injector does not know {key}")).kind;
        for value in values.iter().filter(|value| kind.check(value).is_ok()) {
            let layout =
                Layout { annotations: json!({key: value}), ..Layout::new("single annotation") };
            let Some(proxy) = layout.accepted() else { continue };
            let words = proxy.list("args").map(|word| OsString::from(text(word)));
            let words = std::iter::once("pilot-agent".into()).chain(words);
            let started = match Arguments::parse_lenient(words) {
                Ok(_) => layout.config(&proxy).map(drop).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            problems.extend(started.err().map(|error| format!("{key}: {value:?}: {error}")));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Settings and pod of one injection.
struct Layout {
    name: &'static str,
    values: Value,
    mesh: &'static str,
    annotations: Value,
    process: Process,
}

impl Layout {
    fn new(name: &'static str) -> Self {
        let process = Process { native_sidecars: true, ..Process::default() };
        Self { name, values: json!({}), mesh: "", annotations: json!({}), process }
    }

    fn pod(&self) -> Value {
        self.injection().unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    fn injection(&self) -> Result<Value, InjectError> {
        let documents = Documents {
            values: Some(Document { source: "values", text: &self.values.to_string() }),
            mesh_config: Some(Document { source: "mesh", text: self.mesh }),
            ..Documents::default()
        };
        let settings = Settings::parse(&documents, self.process.clone()).unwrap();
        let pod = json!({
            "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": self.annotations},
            "spec": {"serviceAccountName": "web", "containers": [{
                "name": "web", "image": "web:1",
                "ports": [{"containerPort": 8080}, {"containerPort": 8081, "name": "metrics"}],
                "livenessProbe": {"httpGet": {"path": "/live", "port": 8080}},
                "readinessProbe": {"grpc": {"port": 8080}},
                "lifecycle": {"preStop": {"httpGet": {"path": "/stop", "port": 8080}}},
            }]},
        });
        match inject(&settings, Target::at_admission(pod, "shop"))? {
            InjectionOutcome::Injected(injection) => Ok(injection.pod),
            InjectionOutcome::Skipped { reason, .. } => panic!("{}: {reason}", self.name),
        }
    }

    /// Returns pod and proxy container; `None` if the pod is denied.
    fn accepted(&self) -> Option<Proxy> {
        self.injection().ok().map(Proxy::of_pod)
    }

    /// Returns pod and proxy container.
    fn proxy(&self) -> Proxy {
        Proxy::of_pod(self.pod())
    }

    fn config(&self, proxy: &Proxy) -> Result<Config, ConfigError> {
        let (arguments, _) = proxy.arguments();
        let arguments::Command::Proxy(flags) = arguments.command else { panic!("{}", self.name) };
        let metadata = |field: &str| -> BTreeMap<String, String> {
            let entries = proxy.pod["metadata"][field].as_object().into_iter().flatten();
            entries.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect()
        };
        let files = Files {
            labels: metadata("labels"),
            annotations: metadata("annotations"),
            ..Files::default()
        };
        let variables = proxy.environment();
        let environment = Environment::new(
            variables.into_iter().map(|(name, value)| (name.into(), value.into())),
        );
        let json_log = arguments.log.as_json;
        config::resolve(&Inputs { arguments: *flags, json_log, environment, files })
            .map(|resolved| resolved.config)
    }
}

/// Container of the proxy in its pod.
struct Proxy {
    pod: Value,
    container: Value,
}

impl Proxy {
    fn of_pod(pod: Value) -> Self {
        let mut containers = ["containers", "initContainers"]
            .iter()
            .flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
        let container = containers.find(|container| container["name"] == "istio-proxy").cloned();
        drop(containers);
        Self { container: container.unwrap(), pod }
    }

    /// Returns the environment as the kubelet makes it.
    fn environment(&self) -> Vec<(String, String)> {
        self.list("env").map(|variable| (text(&variable["name"]), value_of(variable))).collect()
    }

    /// Returns the parsed arguments and the unknown flags.
    fn arguments(&self) -> (Arguments, Vec<String>) {
        let words = self.list("args").map(|word| text(word).replace("$(POD_NAMESPACE)", "shop"));
        let words = std::iter::once("pilot-agent".to_owned()).chain(words);
        Arguments::parse_lenient(words.map(OsString::from)).unwrap()
    }

    fn list(&self, field: &str) -> impl Iterator<Item = &Value> {
        self.container[field].as_array().into_iter().flatten()
    }
}

/// Returns a message for each variable, argument, mount and port that the agent does not know.
fn unknown_parts(layout: &Layout, proxy: &Proxy) -> Vec<String> {
    let variables = proxy.environment().into_iter().map(|(name, _)| name);
    let variables = variables.filter(|name| !variables::is_known(name));
    let (_, flags) = proxy.arguments();
    let mounts = proxy.list("volumeMounts").map(|mount| text(&mount["mountPath"]));
    let mounts = mounts.filter(|path| !is_known_mount(path) && !path.starts_with("/user/"));
    let ports = proxy.list("ports").filter_map(|port| port["containerPort"].as_u64());
    let ports = ports.filter(|port| !PORTS.iter().any(|known| u64::from(known.number) == *port));
    let unknown = variables
        .map(|name| format!("variable {name}"))
        .chain(flags.iter().map(|flag| format!("argument {flag}")))
        .chain(mounts.map(|path| format!("mount {path}")))
        .chain(ports.map(|port| format!("port {port}")));
    unknown.map(|part| format!("{}: the agent does not know {part}", layout.name)).collect()
}

/// Returns Envoy's message if it rejects the bootstrap.
fn rejected_bootstrap(layout: &Layout, config: &Config) -> Option<String> {
    let envoy = config.envoy.as_ref()?;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("envoy.json");
    fs::write(&file, bootstrap(config, envoy, &Node::new(config)).to_string()).unwrap();
    let output = Command::new(Programs::find().unwrap().envoy().unwrap())
        .arg("--config-path")
        .arg(&file)
        .args(command_line::arguments(config, envoy))
        .args(["--mode", "validate"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then(|| format!("{}: {complaint}", layout.name))
}

fn value_of(variable: &Value) -> String {
    let source = &variable["valueFrom"];
    match (
        source["fieldRef"]["fieldPath"].as_str(),
        source["resourceFieldRef"]["resource"].as_str(),
    ) {
        (Some("metadata.name" | "spec.serviceAccountName"), _) => "web".to_owned(),
        (Some("metadata.namespace"), _) => "shop".to_owned(),
        (Some("status.podIP"), _) => "10.0.0.1".to_owned(),
        (Some("status.hostIP"), _) => "10.9.9.9".to_owned(),
        (Some("spec.nodeName"), _) => "node-1".to_owned(),
        (_, Some("limits.cpu")) => "2".to_owned(),
        (_, Some("limits.memory")) => "1073741824".to_owned(),
        (None, None) => text(&variable["value"]),
        other => panic!("{other:?} of {variable}"),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Every overlay, with the settings that add variables, arguments, mounts and ports.
fn layouts() -> Vec<Layout> {
    let annotated = |name, annotations| Layout { annotations, ..Layout::new(name) };
    let with_values = |name, values| Layout { values, ..Layout::new(name) };
    let with_mesh = |name, mesh| Layout { mesh, ..Layout::new(name) };
    vec![
        Layout::new("sidecar"),
        Layout { process: Process::default(), ..Layout::new("classic sidecar") },
        annotated("gateway", json!({"inject.istio.io/templates": "gateway"})),
        annotated("grpc-agent", json!({"inject.istio.io/templates": "grpc-agent"})),
        annotated(
            "annotations",
            json!({
                "sidecar.istio.io/bootstrapOverride": "my-bootstrap",
                "sidecar.istio.io/interceptionMode": "TPROXY",
                "sidecar.istio.io/logLevel": "debug",
                "sidecar.istio.io/componentLogLevel": "misc:error,http:debug",
                "sidecar.istio.io/agentLogLevel": "default:debug",
                "sidecar.istio.io/userVolume": r#"{"v":{"emptyDir":{}}}"#,
                "sidecar.istio.io/userVolumeMount": r#"{"v":{"mountPath":"/user/v"}}"#,
                "status.sidecar.istio.io/port": "15099",
                "prometheus.io/port": "8081",
                "proxy.istio.io/config": "concurrency: 3\nproxyMetadata:\n  ISTIO_META_DNS_CAPTURE: 'true'\n  EXIT_ON_ZERO_ACTIVE_CONNECTIONS: 'true'\n",
            }),
        ),
        with_values(
            "values",
            json!({"global": {
                "network": "n1", "meshID": "m1", "logAsJson": true, "mountMtlsCerts": true,
                "multiCluster": {"clusterName": "c1"}, "sts": {"servicePort": 15463},
                "proxy": {"outlierLogPath": "/dev/stdout", "privileged": true,
                    "startupProbe": {"enabled": true}, "holdApplicationUntilProxyStarts": true},
            }}),
        ),
        with_values("own root", json!({"global": {"pilotCertProvider": "kubernetes"}})),
        with_values(
            "Google's certificates",
            json!({"global": {"caName": "GkeWorkloadCertificate"}}),
        ),
        Layout {
            values: json!({"global": {"proxy": {"tracer": "datadog"}}}),
            mesh: "defaultConfig: {tracing: {datadog: {address: '$(HOST_IP):8126'}}}",
            annotations: json!({"apm.datadoghq.com/env": r#"{"DD_ENV":"prod","DD_VERSION":"1"}"#}),
            ..Layout::new("datadog")
        },
        Layout {
            process: Process { compliance_policy: "fips-140-3".to_owned(), ..Process::default() },
            ..Layout::new("compliance")
        },
        with_mesh("localhost", "inboundTrafficPolicy: {mode: LOCALHOST}\n"),
        with_mesh(
            "OpenTelemetry",
            "extensionProviders: [{name: o, opentelemetry: {service: o.o.svc, port: 4317, resource_detectors: {environment: {}}}}]\n",
        ),
        with_mesh(
            "proxy config",
            "trustDomain: td\ndefaultConfig: {discoveryAddress: 'istiod.other.svc:15010', tracing: {zipkin: {address: 'z:9411'}}, proxyMetadata: {ISTIO_META_X: '1', ISTIO_DELTA_XDS: 'false', OUTPUT_CERTS: /etc/istio/proxy}}\n",
        ),
    ]
}
