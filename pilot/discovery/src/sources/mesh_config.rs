//! Settings of the mesh.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use kube_access::with_causes;
use mesh::mesh_config::MeshConfig;
use pilot_routing::view::MeshView;
use tokio::time::sleep;

use super::{FILES_INTERVAL, Sink};
use crate::args::DiscoveryArgs;
use crate::publish::Input;

/// Reader of `MeshConfig` documents.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    /// Namespace for documents without a `rootNamespace`.
    namespace: String,
    /// Name of the Kubernetes cluster, which no document has.
    cluster_id: Arc<str>,
}

impl Reader {
    pub(super) fn new(args: &DiscoveryArgs) -> Self {
        Self { namespace: args.namespace.clone(), cluster_id: args.cluster_id.as_str().into() }
    }

    /// Reads a document.
    pub(super) fn read(&self, text: &str) -> Result<MeshView> {
        let mut config = MeshConfig::parse(text).map_err(|problem| anyhow!(problem))?;
        if config.root_namespace.is_empty() {
            config.root_namespace.clone_from(&self.namespace);
        }
        let mesh = MeshView { cluster_id: Arc::clone(&self.cluster_id), ..MeshView::new(&config)? };
        if let Some(log) = &mesh.access_log {
            log.validate().context("accessLogFormat")?;
        }
        for (place, problem) in config.oddities() {
            tracing::warn!("mesh configuration: {place}: {problem}");
        }
        Ok(mesh)
    }

    /// Reads a file once.
    pub(super) fn read_file(&self, file: &Path) -> Result<MeshView> {
        let read = || self.read(&local_files::read_text_file(file)?);
        read().with_context(|| format!("--meshConfig {}", file.display()))
    }

    /// Follows a file. The last valid document stays in use.
    pub(super) async fn follow_file(&self, file: &Path, sink: &Sink) {
        let name = file.display();
        let read = || {
            local_files::read_text_file(file)
                .map(|text| text.as_str().to_owned())
                .map_err(|error| format!("--meshConfig {name}: reading failed: {error}"))
        };
        let offer = |text: &String| {
            let mesh = self.read(text).map_err(|error| {
                sink.rejected(KIND);
                format!("--meshConfig {name}: {error:#}")
            })?;
            sink.settings(Input::Mesh(mesh));
            Ok(())
        };
        let kept = "the last valid settings stay";
        match local_files::follow(FILES_INTERVAL, None, kept, read, offer).await {}
    }

    /// Watches the `ConfigMap` of a revision. Without it Istio's defaults apply. The watch selects
    /// the one name, because the permissions cover no other.
    pub(super) async fn watch(&self, client: Client, revision: &str, sink: &Sink) {
        let name = match revision {
            "" | "default" => CONFIG_MAP.to_owned(),
            revision => format!("{CONFIG_MAP}-{revision}"),
        };
        let api: Api<ConfigMap> = Api::namespaced(client, &self.namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = Box::pin(kube::runtime::watcher(api, config));
        let (mut text, mut is_failing) = (String::new(), false);
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => {
                    text.clear();
                    continue;
                }
                Ok(Event::InitApply(map)) => {
                    text = document(map);
                    continue;
                }
                Ok(Event::InitDone) => {}
                Ok(Event::Apply(map)) => text = document(map),
                Ok(Event::Delete(_)) => text.clear(),
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        let error = with_causes(&error);
                        tracing::warn!(config_map = name, error, "watch failed; retrying");
                    }
                    sleep(PAUSE).await;
                    continue;
                }
            }
            is_failing = false;
            match self.read(&text) {
                Ok(mesh) => sink.settings(Input::Mesh(mesh)),
                Err(error) => {
                    sink.rejected(KIND);
                    tracing::warn!(
                        "ConfigMap {}/{name}: key {KEY}: {error:#}; the last valid settings stay",
                        self.namespace
                    );
                }
            }
        }
    }
}

fn document(map: ConfigMap) -> String {
    map.data.and_then(|mut data| data.remove(KEY)).unwrap_or_default()
}

const CONFIG_MAP: &str = "istio";
const KEY: &str = "mesh";
/// Kind of the settings, in metrics.
const KIND: &str = "MeshConfig";
const PAUSE: Duration = Duration::from_secs(1);
