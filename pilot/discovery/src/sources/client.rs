//! Client of the API server.

use anyhow::{Context as _, Result};
use kube::{Client, Config};
use kube_access::kubeconfig;

use crate::args::DiscoveryArgs;

/// Client by `--kubeconfig`, else by the pod's service account.
pub async fn client(args: &DiscoveryArgs) -> Result<Client> {
    let config = match &args.kubeconfig {
        Some(file) => {
            let origin = format!("--kubeconfig `{}`", file.display());
            kubeconfig::from_file(file, &origin, None).await?
        }
        None => Config::incluster().context(
            "finding the API server; hint: outside of a pod, use --kubeconfig or --registries Files",
        )?,
    };
    Client::try_from(config).context("creating the client of the API server")
}
