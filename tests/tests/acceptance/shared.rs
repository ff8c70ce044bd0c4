//! State shared by cases that run one after the other: API servers, a namespace for pods, the
//! Service.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use e2e::api_servers::ApiServers;
use e2e::netns::Namespace;
use e2e::programs::{Programs, repository};
use kube::Client;
use tokio::runtime::Runtime;

use crate::access;
use crate::balancer::Balancer;
use crate::client_certificate::ClientIdentity;
use crate::pace::Pace;

pub(crate) struct Shared {
    pub(crate) servers: ApiServers,
    /// A client of the administrator for each API server.
    pub(crate) admins: Vec<Client>,
    pub(crate) balancer: Balancer,
    /// The API servers' client certificate for webhooks that request one.
    pub(crate) client: ClientIdentity,
    pub(crate) pace: Pace,
    pub(crate) injector: PathBuf,
    /// The manifests without the webhook configuration, and the webhook configuration alone.
    pub(crate) base: String,
    pub(crate) webhook: String,
    runtime: Runtime,
    _network: Namespace,
}

impl Shared {
    /// Starts it in a network namespace of its own, in which the calling thread stays.
    pub(crate) fn start(pace: Pace) -> Result<Self> {
        let network = Namespace::create()?;
        network.ip(&format!("address add {SERVICES} dev lo"))?;
        network.enter()?;
        let programs = Programs::find()?;
        let injector = programs.own("sidecar-injector")?;
        let client = ClientIdentity::create()?;
        let servers = ApiServers::start_with(&programs, API_SERVERS, &[client.api_server_flag()])?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("making a runtime")?;
        let (admins, balancer) = runtime.block_on(async {
            let mut admins = Vec::new();
            for index in 0..servers.count() {
                admins.push(servers.admin(index).await?);
            }
            anyhow::Ok((admins, Balancer::start().await?))
        })?;
        let path = repository().join("manifests/install.yaml");
        let manifests =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let (webhook, base): (Vec<_>, Vec<_>) = manifests
            .split("\n---\n")
            .partition(|document| document.contains("kind: MutatingWebhookConfiguration"));
        let (base, webhook) = (base.join("\n---\n"), webhook.join("\n---\n"));
        let kubectl = servers.kubectl();
        kubectl.must_with_input(["apply", "--server-side", "--filename", "-"], &base)?;
        kubectl.must_with_input(["apply", "--filename", "-"], PODS)?;
        let shared = Self {
            servers,
            admins,
            balancer,
            client,
            pace,
            injector,
            base,
            webhook,
            runtime,
            _network: network,
        };
        // Every API server must know the account before a replica sends a request.
        for right in [("secrets", "create"), ("mutatingwebhookconfigurations", "patch")] {
            shared.runtime.block_on(access::until_allowed(&shared, right, true))?;
        }
        Ok(shared)
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

const API_SERVERS: usize = 2;
/// The network namespace has every address of the range.
const SERVICES: &str = "10.96.0.0/24";
/// A namespace for pods, and the objects of Istio that the injector reads if they exist.
const PODS: &str = r#"
{"apiVersion": "v1", "kind": "Namespace",
 "metadata": {"name": "pods", "labels": {"istio-injection": "enabled"}}}
---
{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
 "metadata": {"name": "proxyconfigs.networking.istio.io"},
 "spec": {
   "group": "networking.istio.io", "scope": "Namespaced",
   "names": {"kind": "ProxyConfig", "plural": "proxyconfigs", "singular": "proxyconfig"},
   "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {
     "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}
"#;
