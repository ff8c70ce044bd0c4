//! Debug pages of the control plane: of its pods, or of one that runs without a cluster.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

use crate::cluster::{Cluster, ClusterClient};
use crate::pod_target::{NamedPod, PodTarget};
use crate::{Failure, cluster, pod_port};

/// Flags that find the debug pages.
#[derive(Debug, Default, Args)]
pub(super) struct DebugPages {
    /// Label selector of the control plane's pods
    #[arg(long, value_name = "SELECTOR", default_value = SELECTOR)]
    selector: String,
    /// Port of the pods with the debug pages
    #[arg(long, value_name = "PORT", default_value_t = DEBUG_PORT)]
    debug_port: u16,
    /// Address of the debug pages, such as 127.0.0.1:8080, instead of the pods of a cluster
    /// [default: none]
    #[arg(long, value_name = "IP:PORT", conflicts_with_all = ["selector", "debug_port"])]
    debug_address: Option<SocketAddr>,
}

/// A page of one replica.
pub(super) struct Page {
    /// The pod, or its address.
    pub(super) pod: String,
    /// Its answer.
    pub(super) content: anyhow::Result<Value>,
}

/// Access to the debug pages: of the control plane's pods, or of one address.
pub(super) struct PageSource<'a> {
    /// Client of the cluster; `None` for an address.
    pub(super) client: Option<Client>,
    flags: &'a DebugPages,
    namespace: &'a str,
}

impl DebugPages {
    /// Runs a command that asks for pages, with a cluster or without one.
    pub(super) fn run<T>(
        &self,
        cluster_client: ClusterClient<'_>,
        asks: impl AsyncFnOnce(PageSource<'_>) -> anyhow::Result<T>,
    ) -> Result<T, Failure> {
        let source =
            |client| PageSource { client, flags: self, namespace: cluster_client.control_plane };
        let asked = if self.debug_address.is_some() {
            cluster_client.flags.refuse().map_err(Failure::Usage)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime
                .context("starting the runtime")
                .and_then(|runtime| runtime.block_on(asks(source(None))))
        } else {
            cluster::ask(cluster_client.flags, async |Cluster { client, name }| {
                asks(source(Some(client))).await.context(name)
            })
        };
        asked.map_err(Failure::from_error)
    }
}

impl PageSource<'_> {
    /// Asks each running pod of the control plane, or the address, for a page.
    pub(super) async fn ask(&self, path: &str) -> anyhow::Result<Vec<Page>> {
        if let Some(address) = self.flags.debug_address {
            let body = pod_port::get_at(address, path).await;
            let pod = address.to_string();
            let content = body.and_then(|body| json(&body, &format!("{address}: {path}")));
            return Ok(vec![Page { pod, content }]);
        }
        let (client, namespace) = (self.client.clone().context(NO_CLIENT)?, self.namespace);
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let selector = &self.flags.selector;
        let running = ListParams::default().labels(selector).fields("status.phase=Running");
        let pods = pods.list(&running).await;
        let pods = pods.with_context(|| format!("listing pods of namespace {namespace}"))?;
        ensure!(
            !pods.items.is_empty(),
            "no running pod with {selector} in namespace {namespace}; hint: name the control \
             plane's namespace with --istioNamespace"
        );
        let mut pages = Vec::new();
        for pod in pods {
            let pod = pod.name_any();
            let port = self.flags.debug_port;
            let body = pod_port::get(client.clone(), namespace, &pod, port, path).await;
            let content = body.and_then(|body| json(&body, &format!("pod {pod}: {path}")));
            pages.push(Page { pod, content });
        }
        pages.sort_by(|one, other| one.pod.cmp(&other.pod));
        Ok(pages)
    }

    /// Returns the pod of a proxy; of a workload, the first one by name that runs.
    pub(super) async fn proxy(
        &self,
        target: &PodTarget,
        namespace: &str,
    ) -> anyhow::Result<NamedPod> {
        match &self.client {
            Some(client) => target.pod(client, namespace).await,
            None => target.without_cluster(namespace),
        }
    }
}

fn json(body: &[u8], origin: &str) -> anyhow::Result<Value> {
    serde_json::from_slice(body).with_context(|| format!("{origin}: not JSON"))
}

const NO_CLIENT: &str = "neither a cluster nor an address of debug pages";

/// Pods of our control plane and of an istiod.
const SELECTOR: &str = "app in (pilot-discovery,istiod)";

/// Port of `--httpAddr`.
const DEBUG_PORT: u16 = 8080;
