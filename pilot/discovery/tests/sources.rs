//! The program with a real API server: settings and policies at run time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::net::SocketAddr;
use std::path::Path;

use e2e::api_servers::ApiServers;
use e2e::http;
use e2e::objects_by_path::ObjectsByPath;
use e2e::port::free_port;
use e2e::process::Process;
use e2e::programs::{Programs, repository};
use e2e::wait::until;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

#[test]
fn settings_and_policies_follow_the_api_server() {
    let tests = "pilot-discovery sources";
    let Some(programs) = Programs::of_api_servers_if_any(tests).unwrap() else { return };
    let mut cluster = Cluster::start(&programs);
    let program = Program::start(&cluster);
    // Neither the ConfigMap nor the definition of policies is there.
    program.until("the defaults", |config| config["mesh"]["outboundTrafficPolicy"] == "AllowAny");
    cluster.settings(0, "outboundTrafficPolicy: {mode: REGISTRY_ONLY}");
    let is_strict = |config: &Value| config["mesh"]["outboundTrafficPolicy"] == "RegistryOnly";
    program.until("the settings", is_strict);
    cluster.settings(0, "outboundTrafficPolicy: [");
    program.until_rejected("MeshConfig", 1);
    cluster.settings(0, "{accessLogFile: /dev/stdout, accessLogFormat: '%NOPE%'}");
    program.until_rejected("MeshConfig", 2);
    assert!(is_strict(&program.config().unwrap()));
    cluster.settings(0, "trustDomain: example.org");
    program.until("other settings", |config| {
        config["mesh"]["trustDomain"] == "example.org" && !is_strict(config)
    });
    cluster.delete(0, SETTINGS);
    program.until("the defaults again", |config| config["mesh"]["trustDomain"] == "cluster.local");

    let crds = repository().join("manifests/mesh/crds.yaml");
    cluster.servers.kubectl().must(["apply", "-f", &crds.display().to_string()]).unwrap();
    until("the definition is established", || {
        cluster.try_apply(0, POLICY, &policy(&json!({"mtls": {"mode": "STRICT"}})))
    })
    .unwrap();
    let modes = |config: &Value| config["peerAuthentications"].clone();
    let has_mode = |config: &Value, mode: &str| modes(config)[0]["mode"] == mode;
    program.until("the policy", |config| has_mode(config, "Strict"));
    let invalid = json!({"mtls": {"mode": "STRICT"}, "selector": {"matchLabels": {"app": "web"}},
        "portLevelMtls": {"http": {"mode": "DISABLE"}}});
    cluster.apply(0, POLICY, &policy(&invalid));
    program.until_rejected("PeerAuthentication", 1);
    assert!(has_mode(&program.config().unwrap(), "Strict"));
    cluster.apply(0, POLICY, &policy(&json!({"mtls": {"mode": "PERMISSIVE"}})));
    program.until("the changed policy", |config| has_mode(config, "Permissive"));

    // Changes while the API server of the program is away.
    cluster.servers.kill(0).unwrap();
    cluster.delete(1, POLICY);
    cluster.settings(1, "outboundTrafficPolicy: {mode: REGISTRY_ONLY}");
    assert!(has_mode(&program.config().unwrap(), "Permissive"));
    cluster.servers.start_again(0).unwrap();
    program.until("the missed changes", |config| is_strict(config) && modes(config) == json!([]));
}

/// The API server has no opinion about the status of a policy, and about no part of an object whose
/// definition says so.
#[test]
fn unreadable_object_stops_no_watch() {
    let tests = "pilot-discovery sources";
    let Some(programs) = Programs::of_api_servers_if_any(tests).unwrap() else { return };
    let cluster = Cluster::start(&programs);
    let crds = repository().join("manifests/mesh/crds.yaml");
    cluster.servers.kubectl().must(["apply", "-f", &crds.display().to_string()]).unwrap();
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "authorizationpolicies.security.istio.io"},
        "spec": {
            "group": "security.istio.io", "scope": "Namespaced",
            "names": {"kind": "AuthorizationPolicy", "plural": "authorizationpolicies"},
            // As in a cluster of an old Istio.
            "versions": [{"name": "v1beta1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": any}}],
        },
    });
    cluster.apply(0, AUTHORIZATION_DEFINITION, &definition);
    let plain = json!({"apiVersion": "security.istio.io/v1beta1", "kind": "AuthorizationPolicy",
        "metadata": {"name": "plain", "namespace": "shop"}, "spec": {"action": "DENY", "rules": [{}]}});
    let path = |name: &str| format!("{AUTHORIZATION_POLICIES}/{name}");
    until("the definitions are established", || {
        cluster.try_apply(0, POLICY, &policy(&json!({"mtls": {"mode": "STRICT"}})))?;
        cluster.try_apply(0, &path("plain"), &plain)
    })
    .unwrap();
    let mut deep = plain.clone();
    deep["metadata"]["name"] = "deep".into();
    deep["spec"] = (0..200).fold(json!({}), |inner, _| json!({"a": inner}));
    let mut status = policy(&json!(null));
    status["status"] = deep["spec"].clone();
    for (path, object) in [(path("deep"), &deep), (format!("{POLICY}/status"), &status)] {
        // The test cannot read the answer either.
        let error = cluster.try_apply(0, &path, object).unwrap_err();
        assert!(format!("{error:#}").contains("recursion limit"), "{error:#}");
    }

    // Anyone who may write an object may write what the API server remembers of writers.
    let writer = json!({"manager": "x", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": (0..200).fold(json!({}), |it, _| json!({"f:a": it}))});
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "odd", "namespace": "shop", "managedFields": [writer]},
        "spec": {"ports": [{"port": 80}]}});
    let kubectl = cluster.servers.kubectl();
    let services = "/api/v1/namespaces/shop/services";
    let create = ["create", "--raw", services, "-f", "-"];
    kubectl.must_with_input(create, &service.to_string()).unwrap();
    let stored = kubectl.must(["get", "--raw", &format!("{services}/odd")]).unwrap();
    assert!(serde_json::from_str::<Value>(&stored).is_err(), "{stored}");

    let program = Program::start(&cluster);
    program.until("the policy", |config| config["peerAuthentications"][0]["mode"] == "Strict");
    let services = http::get(program.debug, "/debug/registry").unwrap().expect_ok().unwrap();
    assert!(services.contains("odd.shop.svc.cluster.local"), "{services}");
    program.until_counted("outrigger_objects_without_effect{kind=\"AuthorizationPolicy\"} 2");
    let log = program.process.said().unwrap();
    for name in ["deep", "plain"] {
        let said = format!("AuthorizationPolicy shop/{name} has no effect: it is not enforced, so");
        assert_eq!(log.matches(&said).count(), 1, "{log}");
    }
    cluster.delete(0, &path("deep"));
    program.until_counted("outrigger_objects_without_effect{kind=\"AuthorizationPolicy\"} 1");
}

/// API servers with one store. The program knows the first.
struct Cluster {
    servers: ApiServers,
    objects: [ObjectsByPath; 2],
    runtime: Runtime,
}

impl Cluster {
    fn start(programs: &Programs) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let servers = ApiServers::start(programs, 2).unwrap();
        let objects = |index| runtime.block_on(ObjectsByPath::new(&servers, index)).unwrap();
        let objects = [objects(0), objects(1)];
        let cluster = Self { servers, objects, runtime };
        for name in ["istio-system", "shop"] {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            cluster.apply(0, &format!("/api/v1/namespaces/{name}"), &namespace);
        }
        cluster
    }

    /// Sets the mesh configuration.
    fn settings(&self, server: usize, document: &str) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "istio", "namespace": "istio-system"}, "data": {"mesh": document}});
        self.apply(server, SETTINGS, &map);
    }

    fn apply(&self, server: usize, path: &str, object: &Value) {
        self.try_apply(server, path, object).unwrap();
    }

    fn try_apply(&self, server: usize, path: &str, object: &Value) -> anyhow::Result<()> {
        self.runtime.block_on(self.objects[server].apply(path, object))
    }

    fn delete(&self, server: usize, path: &str) {
        self.runtime.block_on(self.objects[server].delete(path)).unwrap();
    }
}

/// The running program. It ends with the value.
struct Program {
    process: Process,
    debug: SocketAddr,
    monitoring: SocketAddr,
}

impl Program {
    fn start(cluster: &Cluster) -> Self {
        let [debug, monitoring] =
            [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port().unwrap())));
        let arguments = [
            "discovery".to_owned(),
            format!("--kubeconfig={}", cluster.servers.admin_kubeconfig().display()),
            "--secureGRPCAddr=".to_owned(),
            format!("--httpAddr={debug}"),
            format!("--monitoringAddr={monitoring}"),
        ];
        let program = Path::new(env!("CARGO_BIN_EXE_pilot-discovery"));
        let folder = cluster.servers.folder();
        let process = Process::start(folder, "pilot-discovery", program, arguments).unwrap();
        Self { process, debug, monitoring }
    }

    fn config(&self) -> anyhow::Result<Value> {
        let page = http::get(self.debug, "/debug/config")?.expect_ok()?;
        Ok(serde_json::from_str(&page)?)
    }

    /// Waits for settings or policies.
    fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        let probe = || {
            let config = self.config()?;
            anyhow::ensure!(holds(&config), "{config}\n{}", self.process.said()?);
            Ok(())
        };
        until(what, probe).unwrap();
    }

    /// Waits until invalid documents or objects are counted.
    fn until_rejected(&self, kind: &str, times: u32) {
        self.until_counted(&format!("pilot_total_rejected_configs{{kind=\"{kind}\"}} {times}"));
    }

    /// Waits for a line on the page of metrics.
    fn until_counted(&self, line: &str) {
        let probe = || {
            let page = http::get(self.monitoring, "/metrics")?.expect_ok()?;
            anyhow::ensure!(page.contains(&format!("\n{line}\n")), "no {line} on\n{page}");
            Ok(())
        };
        until(line, probe).unwrap();
    }
}

fn policy(spec: &Value) -> Value {
    json!({"apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication",
        "metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
}

const SETTINGS: &str = "/api/v1/namespaces/istio-system/configmaps/istio";
const AUTHORIZATION_POLICIES: &str =
    "/apis/security.istio.io/v1beta1/namespaces/shop/authorizationpolicies";
const AUTHORIZATION_DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/\
    customresourcedefinitions/authorizationpolicies.security.istio.io";
const POLICY: &str = "/apis/security.istio.io/v1/namespaces/shop/peerauthentications/web";
