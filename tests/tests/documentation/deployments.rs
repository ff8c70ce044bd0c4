//! Deployments of our servers, run as processes in place of a kubelet.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use e2e::port::free_port;
use e2e::process::Process;
use e2e::{http, wait};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::Error;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::fixture::Fixture;

/// Running servers, by the names of their Deployments in `istio-system`.
#[derive(Default)]
pub(crate) struct Deployments(BTreeMap<String, Process>);

impl Deployments {
    /// Starts the servers of new Deployments, stops those of deleted ones, and makes their pods
    /// ready when the server is.
    pub(crate) fn reconcile(&mut self, fixture: &Fixture) -> Result<()> {
        let found = list(fixture, "deployments")?;
        let name = |one: &Value| one["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let names: Vec<_> = found.iter().map(name).collect();
        self.0.retain(|name, _| names.contains(name));
        for deployment in &found {
            let name = name(deployment);
            if !self.0.contains_key(&name)
                && let Some(server) = start(fixture, &name, deployment)?
            {
                self.0.insert(name, server);
            }
        }
        if !self.0.is_empty() {
            wait::until("the pods of the servers exist", || all_pods_exist(fixture))?;
            make_pods_ready(fixture)?;
        }
        for deployment in &found {
            let what = "the webhook configuration has a caBundle";
            wait::until(what, || expect_bundles(fixture, deployment))?;
        }
        Ok(())
    }
}

impl Drop for Deployments {
    /// Kills the servers: their shutdown takes a second, which no page waits for.
    fn drop(&mut self) {
        for server in self.0.values_mut() {
            // One that has ended is as good.
            let _ = server.kill();
        }
    }
}

fn list(fixture: &Fixture, kind: &str) -> Result<Vec<Value>> {
    fixture.runtime.block_on(fixture.objects.list(kind, NAMESPACE))
}

/// Starts a server with the flags and the account of its Deployment, and waits until it is ready.
/// Returns `None` for a program without a stand-in.
fn start(fixture: &Fixture, name: &str, deployment: &Value) -> Result<Option<Process>> {
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let image = container["image"].as_str().unwrap_or_default();
    let Some(server) = SERVERS.iter().find(|server| image.contains(server.program)) else {
        return Ok(None);
    };
    let account = pod["serviceAccountName"].as_str().context("a server has an account")?;
    let token = fixture.runtime.block_on(fixture.objects.token(NAMESPACE, account))?;
    let kubeconfig = fixture.servers.kubeconfig(0, account, &token)?;
    let service = service(fixture, deployment)?;
    // The first installation has the usual port, for readers of its pages; others have none left.
    let port = if name == server.program { server.port } else { free_port()? };
    let ready = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let env = container["env"].as_array().into_iter().flatten();
    let revision = env.filter(|one| one["name"] == "REVISION");
    let revision = revision.filter_map(|one| one["value"].as_str());
    let flags = args(deployment)
        .filter(|flag| !flag.starts_with("--probeAddr="))
        .map(str::to_owned)
        .chain(revision.map(|revision| format!("--revision={revision}")))
        .chain((server.flags)(&service, ready)?)
        .chain([format!("--kubeconfig={}", kubeconfig.display())]);
    let program = fixture.programs.own(server.program)?;
    let mut process = Process::start(fixture.servers.folder(), name, &program, flags)?;
    process.wait_until("the server is ready", || {
        http::get(ready, server.path)?.expect_ok().map(drop)
    })?;
    Ok(Some(process))
}

/// Returns the cluster address of the Service that selects the pods of a Deployment.
fn service(fixture: &Fixture, deployment: &Value) -> Result<String> {
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    let selects = |service: &Value| {
        let selector = service["spec"]["selector"].as_object();
        selector.is_some_and(|selector| selector.iter().all(|(key, value)| labels[key] == *value))
            && service["spec"]["clusterIP"] != "None"
    };
    let services = list(fixture, "services")?;
    let found = services.iter().find(|service| selects(service));
    let address = found.and_then(|service| service["spec"]["clusterIP"].as_str());
    Ok(address.context("a server has a Service")?.to_owned())
}

fn all_pods_exist(fixture: &Fixture) -> Result<()> {
    for deployment in list(fixture, "deployments")? {
        let (metadata, status) = (&deployment["metadata"], &deployment["status"]);
        let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
        ensure!(
            metadata["generation"] == status["observedGeneration"]
                && status["updatedReplicas"].as_u64().unwrap_or_default() >= wanted.min(1),
            "{}: {status}",
            metadata["name"]
        );
    }
    Ok(())
}

/// Fails while an entry of the webhook configurations of a Deployment has no `caBundle`.
fn expect_bundles(fixture: &Fixture, deployment: &Value) -> Result<()> {
    for name in args(deployment).filter_map(|arg| arg.strip_prefix("--webhook-configuration=")) {
        let all = Api::<MutatingWebhookConfiguration>::all(fixture.admin.clone());
        let configuration = fixture.runtime.block_on(all.get_opt(name))?;
        let mut entries = configuration.and_then(|found| found.webhooks).into_iter().flatten();
        let is_trusted = entries.all(|entry| entry.client_config.ca_bundle.is_some());
        ensure!(is_trusted, "{name}: not yet");
    }
    Ok(())
}

fn args(deployment: &Value) -> impl Iterator<Item = &str> {
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    args.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn make_pods_ready(fixture: &Fixture) -> Result<()> {
    let is_ready = |pod: &Value| pod["status"]["phase"] == "Running";
    for pod in list(fixture, "pods")?.iter().filter(|pod| !is_ready(pod)) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        // For longer than `minReadySeconds`.
        let since = "2000-01-01T00:00:00Z";
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": since});
        let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
        let pods = Api::<Pod>::namespaced(fixture.admin.clone(), NAMESPACE);
        let (how, patch) = (PatchParams::default(), Patch::Strategic(status));
        match fixture.runtime.block_on(pods.patch_status(name, &how, &patch)) {
            Err(Error::Api(status)) if status.code == 404 => {}
            patched => drop(patched?),
        }
    }
    Ok(())
}

/// A program that runs here, where several servers share the loopback address.
struct Server {
    program: &'static str,
    /// Flags for the cluster address of its Service, and an address for readiness.
    flags: fn(&str, SocketAddr) -> Result<Vec<String>>,
    /// Usual port of the page that tells readiness, and its path.
    port: u16,
    path: &'static str,
}

static SERVERS: [Server; 2] = [
    Server {
        program: "sidecar-injector",
        flags: |service, ready| {
            Ok(vec![
                format!("--httpsAddr={service}:443"),
                format!("--adminAddr={ready}"),
                format!("--probeAddr=127.0.0.1:{}", free_port()?),
                "--shutdown-delay=1s".to_owned(),
            ])
        },
        port: 15014,
        path: "/healthz/ready",
    },
    Server {
        program: "pilot-discovery",
        flags: |service, ready| {
            Ok(vec![
                format!("--secureGRPCAddr={service}:15012"),
                format!("--httpAddr={ready}"),
                "--monitoringAddr=".to_owned(),
            ])
        },
        port: 8080,
        path: "/ready",
    },
];
const NAMESPACE: &str = "istio-system";
