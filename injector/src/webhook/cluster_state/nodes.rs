//! Versions of the cluster's kubelets.

use std::convert::Infallible;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher;
use kube::{Api, Client};

use super::watched::{Followed, Reading, WatchedResource, follow};
use crate::cluster::nodes;
use crate::kubernetes::native_sidecars::Kubelets;
use crate::webhook::telemetry::metrics::Metrics;

/// Keeps the versions up to date, for ever.
pub(super) async fn watch(
    client: Client,
    followed: Arc<Followed<Kubelets>>,
    metrics: Arc<Metrics>,
) -> Infallible {
    let api: Api<Node> = Api::all(client);
    let events = || watcher(api.clone(), watcher::Config::default());
    let reading = Reading {
        keep: Box::new(|node: Node| Some(nodes::version(node))),
        value: |known| known.iter().map(|((_, name), version)| (name.clone(), *version)).collect(),
        tell,
    };
    follow(SUBJECT, events, reading, followed, metrics).await
}

fn tell(before: &Kubelets, now: &Kubelets, _: &Metrics) {
    let native = now.native_sidecars(None);
    if before.native_sidecars(None) != native {
        tracing::info!(native, "native sidecar support of the nodes changed");
    }
}

const SUBJECT: WatchedResource = WatchedResource { resource: "nodes", without: nodes::WITHOUT };
