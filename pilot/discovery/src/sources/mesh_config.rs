//! Settings of the mesh.

use std::path::Path;

use anyhow::{Result, anyhow};
use mesh::mesh_config::MeshConfig;
use pilot_routing::view::MeshView;

use super::{FILES_INTERVAL, Sink};
use crate::publish::Input;

/// Reader of `MeshConfig` documents.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    /// Namespace for documents without a `rootNamespace`.
    namespace: String,
}

impl Reader {
    pub(super) fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned() }
    }

    /// Reads a document.
    pub(super) fn read(&self, text: &str) -> Result<MeshView> {
        let mut config = MeshConfig::parse(text).map_err(|problem| anyhow!(problem))?;
        if config.root_namespace.is_empty() {
            config.root_namespace.clone_from(&self.namespace);
        }
        Ok(MeshView::new(&config))
    }

    /// Follows a file. The last valid document stays in use.
    pub(super) async fn follow_file(&self, file: &Path, sink: &Sink) {
        let name = file.display();
        let read = || {
            std::fs::read_to_string(file)
                .map_err(|error| format!("--meshConfig {name}: reading failed: {error}"))
        };
        let offer = |text: &String| {
            let mesh = self.read(text).map_err(|error| format!("--meshConfig {name}: {error}"))?;
            sink.settings(Input::Mesh(mesh));
            Ok(())
        };
        let kept = "the last valid settings stay";
        match local_files::follow(FILES_INTERVAL, None, kept, read, offer).await {}
    }
}
