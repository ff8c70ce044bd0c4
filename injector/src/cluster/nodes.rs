//! Nodes of a cluster.

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::error::ClusterError;
use super::pages::in_pages;
use crate::kubernetes::native_sidecars::{KubeletVersion, Kubelets};

/// Consequence of unreadable nodes, in words.
pub const WITHOUT: &str = "assuming that every node supports native sidecars";

/// Returns the version of a node's kubelet.
pub fn version(node: Node) -> KubeletVersion {
    let info = node.status.and_then(|status| status.node_info);
    KubeletVersion::read(&info.map(|info| info.kubelet_version).unwrap_or_default())
}

/// Returns the versions of all kubelets. Needs list on nodes.
pub async fn kubelets(client: Client) -> Result<Kubelets, ClusterError> {
    let mut versions = Vec::new();
    let api: Api<Node> = Api::all(client);
    let take = |node: Node| versions.push((node.name_any(), version(node)));
    in_pages(ListParams::default().limit(PAGE), async |page: &_| api.list(page).await, take)
        .await?;
    Ok(versions.into_iter().collect())
}

const PAGE: u32 = 100;
