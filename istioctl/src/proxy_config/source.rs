//! Origin of a dump: a file, or the admin interface of a pod's Envoy.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::{ArgGroup, Args};
use serde_json::Value;

use crate::cluster::{self, Cluster, ClusterClient};
use crate::pod_target::{NamedPod, PodTarget};
use crate::{Failure, pod_port};

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("origin").required(true)))]
pub(super) struct Source {
    /// A pod, as NAME.NAMESPACE, or NAME with -n; deployment/NAME is a pod of it that runs
    #[arg(value_name = "[TYPE/]NAME[.NAMESPACE]", group = "origin", value_parser = PodTarget::parse)]
    pod: Option<PodTarget>,
    /// A file with the dump of Envoy's admin interface
    #[arg(short, long, value_name = "FILE", group = "origin")]
    file: Option<PathBuf>,
    /// Port of Envoy's admin interface in the pod
    #[arg(long, value_name = "PORT", default_value_t = ADMIN_PORT)]
    proxy_admin_port: u16,
}

impl Source {
    /// Reads the document that Envoy's admin interface has under a path.
    pub(super) fn read(
        &self,
        path: &str,
        cluster_client: ClusterClient<'_>,
    ) -> Result<Value, Failure> {
        if self.file.is_some() {
            cluster_client.flags.refuse().map_err(Failure::Usage)?;
        }
        self.text(path, cluster_client)
            .and_then(|(origin, text)| {
                let document: Value =
                    serde_json::from_slice(&text).with_context(|| format!("{origin}: not JSON"))?;
                let list = list_of(path);
                ensure!(
                    document[list].is_array(),
                    "{origin}: no list {list:?}, which Envoy's {path} has; hint: fetch it with \
                     `kubectl exec POD -c istio-proxy -- pilot-agent request GET '{path}'`"
                );
                Ok(document)
            })
            .map_err(Failure::from_error)
    }

    /// Text of the document, and its origin for messages.
    fn text(
        &self,
        path: &str,
        cluster_client: ClusterClient<'_>,
    ) -> anyhow::Result<(String, Vec<u8>)> {
        if let Some(file) = &self.file {
            let origin = format!("--file {}", file.display());
            let text = std::fs::read(file).with_context(|| origin.clone())?;
            return Ok((origin, text));
        }
        let target = self.pod.as_ref().context("neither a pod nor a file")?;
        cluster::ask(cluster_client.flags, async |Cluster { client, name: at }| {
            let pod = target.pod(&client, cluster_client.namespace).await;
            let NamedPod { namespace, name } = pod.with_context(|| at.clone())?;
            let read = pod_port::get(client, &namespace, &name, self.proxy_admin_port, path).await;
            let origin = format!("pod {namespace}/{name}: {path}");
            Ok((origin, read.context(at)?))
        })
    }
}

/// Returns the key of the list that Envoy's document at a path consists of.
fn list_of(path: &str) -> &'static str {
    if path == ENDPOINTS { "cluster_statuses" } else { "configs" }
}

/// Path of Envoy's configuration, endpoints included.
pub(super) const CONFIGURATION: &str = "/config_dump?include_eds";

/// Path of the endpoints and their health.
pub(super) const ENDPOINTS: &str = "/clusters?format=json";

/// Port of Envoy's admin interface, as the proxy agent configures it.
const ADMIN_PORT: u16 = 15000;
