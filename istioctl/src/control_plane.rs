//! Debug pages of the control plane's pods.

use anyhow::{Context as _, ensure};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

use crate::pod_port;

/// Flags that find the debug pages.
#[derive(Debug, Default, Args)]
pub(super) struct DebugPages {
    /// Label selector of the control plane's pods
    #[arg(long, value_name = "SELECTOR", default_value = SELECTOR)]
    selector: String,
    /// Port of the pods with the debug pages
    #[arg(long, value_name = "PORT", default_value_t = DEBUG_PORT)]
    debug_port: u16,
}

/// A page of one pod.
pub(super) struct Page {
    /// The pod.
    pub(super) pod: String,
    /// Its answer.
    pub(super) content: anyhow::Result<Value>,
}

impl DebugPages {
    /// Asks each running pod of the control plane for a page.
    pub(super) async fn ask(
        &self,
        client: Client,
        namespace: &str,
        path: &str,
    ) -> anyhow::Result<Vec<Page>> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let running = ListParams::default().labels(&self.selector).fields("status.phase=Running");
        let pods = pods.list(&running).await;
        let pods = pods.with_context(|| format!("listing pods of namespace {namespace}"))?;
        ensure!(
            !pods.items.is_empty(),
            "no running pod with {} in namespace {namespace}\n  hint: name the control plane's \
             namespace with --istioNamespace",
            self.selector
        );
        let mut pages = Vec::new();
        for pod in pods {
            let pod = pod.name_any();
            let body = pod_port::get(client.clone(), namespace, &pod, self.debug_port, path).await;
            let content = body.and_then(|body| {
                serde_json::from_slice(&body)
                    .with_context(|| format!("pod {pod}: {path}: not JSON"))
            });
            pages.push(Page { pod, content });
        }
        pages.sort_by(|one, other| one.pod.cmp(&other.pod));
        Ok(pages)
    }
}

/// Pods of our control plane and of an istiod.
const SELECTOR: &str = "app in (pilot-discovery,istiod)";

/// Port of `--httpAddr`.
const DEBUG_PORT: u16 = 8080;
