//! A workload of ours: the application, and its sidecar with the configuration of our revision.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use e2e::netns::succeed;
use e2e::process::Process;
use e2e::{http, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::Fixture;

use super::peer::PEER;
use super::{OURS, roots};

/// Pod of one container with a Service of its name.
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) namespace: &'static str,
    pub(super) address: &'static str,
    /// Name of the port.
    pub(super) port: &'static str,
}

impl Workload {
    /// Creates account, pod, Service and endpoints.
    pub(super) fn create(&self, fixture: &Fixture) -> Result<()> {
        let Self { name, namespace, address, port } = self;
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace},
        });
        let labels = json!({"app": name, "security.istio.io/tlsMode": "istio",
                            "sidecar.istio.io/inject": "false"});
        let status = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"serviceAccountName": name, "containers": [{"name": "app", "image": "app"}]},
        });
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {"app": name}, "ports": [{"name": port, "port": PORT}]},
        });
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": namespace,
                         "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"name": port, "port": PORT}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": true},
                           "targetRef": {"kind": "Pod", "name": name}}],
        });
        for object in [&account, &pod, &service, &slice] {
            fixture.runtime.block_on(fixture.objects.create(object))?;
        }
        let pods = Api::<Pod>::namespaced(fixture.admin.clone(), namespace);
        let patch = Patch::Merge(json!({ "status": status }));
        fixture.runtime.block_on(pods.patch_status(name, &PatchParams::default(), &patch))?;
        Ok(())
    }

    /// Requests a token that is bound to the pod, as the kubelet does.
    pub(super) fn token(&self, fixture: &Fixture) -> Result<String> {
        let create = ["create", "token", self.name, "--namespace", self.namespace];
        let bound = ["--bound-object-kind=Pod", "--bound-object-name", self.name];
        let create = create.into_iter().chain(bound).chain(["--audience=istio-ca"]);
        Ok(fixture.kubectl().must(create)?.trim().to_owned())
    }

    /// `ADDRESS:PORT` of the application.
    pub(super) fn socket(&self) -> String {
        format!("{}:{PORT}", self.address)
    }
}

/// Running sidecar. It ends with the value.
pub(super) struct Sidecar {
    agent: Process,
    /// Service of the peer.
    service: SocketAddr,
    _container: TempDir,
}

impl Sidecar {
    /// Starts application and sidecar, with connections redirected as by istio-init.
    pub(super) fn start(fixture: &Fixture, control_plane: &str) -> Result<Self> {
        WEB.create(fixture)?;
        serve()?;
        let service = fixture.objects.get("service", PEER.namespace, PEER.name);
        let service = fixture.runtime.block_on(service)?;
        let service = service["spec"]["clusterIP"].as_str().context("a Service has an address")?;
        for rule in [
            format!(
                "--destination {} ! --source 127.0.0.6 --jump REDIRECT --to-ports 15006",
                WEB.address
            ),
            format!("--destination {service} --jump REDIRECT --to-ports 15001"),
        ] {
            let rule = format!("-w -t nat -A OUTPUT -p tcp --dport {PORT} {rule}");
            succeed(Command::new("iptables").args(rule.split(' ')), "")?;
        }
        let container = tempfile::tempdir().context("making a folder")?;
        for (file, text) in [
            ("var/run/secrets/istio/root-cert.pem", roots(fixture, OURS)?),
            ("var/run/secrets/tokens/istio-token", WEB.token(fixture)?),
            ("etc/istio/pod/labels", "app=\"web\"\n".to_owned()),
        ] {
            let file = container.path().join(file);
            fs::create_dir_all(file.parent().context("a folder")?)?;
            fs::write(file, text)?;
        }
        let config = json!({
            "binaryPath": fixture.programs.envoy()?,
            "discoveryAddress": control_plane,
            "concurrency": 1,
        });
        let command = [
            "-i".to_owned(),
            format!("--chdir={}", container.path().display()),
            format!("PROXY_CONFIG={config}"),
            "PILOT_CERT_PROVIDER=istiod".to_owned(),
            format!("CA_ADDR={control_plane}"),
            "ISTIOD_SAN=istiod-canary.istio-system.svc".to_owned(),
            format!("POD_NAME={}", WEB.name),
            format!("POD_NAMESPACE={}", WEB.namespace),
            format!("SERVICE_ACCOUNT={}", WEB.name),
            format!("INSTANCE_IP={}", WEB.address),
            "TRUST_DOMAIN=cluster.local".to_owned(),
            "ISTIO_META_CLUSTER_ID=Kubernetes".to_owned(),
            "ISTIO_META_INTERCEPTION_MODE=REDIRECT".to_owned(),
            fixture.programs.own("pilot-agent")?.display().to_string(),
            "proxy".to_owned(),
            "sidecar".to_owned(),
            format!("--domain={OURS}.svc.cluster.local"),
        ];
        let env = Path::new("/usr/bin/env");
        let agent = Process::start(fixture.servers.folder(), "pilot-agent", env, command)?;
        let service = format!("{service}:{PORT}").parse()?;
        Ok(Self { agent, service, _container: container })
    }

    pub(super) fn until_ready(&mut self) -> Result<()> {
        let probe = || http::get(SocketAddr::from(STATUS), "/healthz/ready")?.expect_ok();
        self.agent.wait_until("the sidecar is ready", probe).map(drop)
    }

    /// Sends a request of the application to the peer, which answers clients of the mesh alone.
    pub(super) fn calls_peer(&self) -> Result<()> {
        http::get(self.service, "/")?.expect_ok().map(drop)
    }
}

/// Serves the application: it answers with the client that the sidecar has verified.
fn serve() -> Result<()> {
    let listener = TcpListener::bind(WEB.socket()).context("binding the application")?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
            let client = head.iter().find(|line| line.starts_with("x-forwarded-client-cert"));
            let client = client.map_or("none", String::as_str);
            // A client that has gone has its answer.
            let _ = write!(
                &stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{client}",
                client.len()
            );
        }
    });
    Ok(())
}

/// Creates pods in a dry run until one is injected, and returns it.
pub(super) fn injected_pod(fixture: &Fixture, namespace: &str) -> Result<String> {
    let client = fixture.admin.clone();
    wait::until("a pod is injected", || {
        let pod = fixture.runtime.block_on(crate::pods::create(&client, namespace))?;
        let pod: Value = serde_json::to_value(pod)?;
        let annotations = &pod["metadata"]["annotations"];
        ensure!(annotations["sidecar.istio.io/status"].is_string(), "not yet: {annotations}");
        anyhow::Ok(pod.to_string())
    })
}

pub(super) const WEB: Workload =
    Workload { name: "web", namespace: OURS, address: "10.244.0.1", port: "http" };
const PORT: u16 = 8000;
const STATUS: ([u8; 4], u16) = ([127, 0, 0, 1], 15020);
