//! Envoy with clusters and listeners from files, as from a control plane.

use std::fs;
use std::net::SocketAddr;

use e2e::http;
use e2e::run_folder::RunFolder;
use serde_json::json;

/// A running Envoy, which ends with the value.
pub(crate) struct Envoy {
    pub(crate) admin: SocketAddr,
    // Ends before its folder is removed.
    _process: e2e::envoy::Envoy,
    folder: RunFolder,
}

impl Envoy {
    /// Starts Envoy. Its admin interface answers when this returns.
    pub(crate) fn start() -> Self {
        let folder = RunFolder::of_process().unwrap();
        let source = |kind: &str, resources: &str| {
            let path = folder.write(kind, resources).unwrap();
            json!({ "resource_api_version": "V3", "path_config_source": { "path": path } })
        };
        let bootstrap = json!({
            "node": { "id": "status", "cluster": "status" },
            "dynamic_resources": {
                "cds_config": source("cds", INVALID),
                "lds_config": source("lds", r#"{"resources": []}"#),
            },
        });
        let mut process = e2e::envoy::Envoy::start(&folder, "envoy", bootstrap).unwrap();
        let admin = process.admin();
        process.wait_until("Envoy answers", || http::get(admin, "/server_info")).unwrap();
        Self { admin, _process: process, folder }
    }

    /// Replaces the invalid clusters by none.
    pub(crate) fn accept_clusters(&self) {
        self.replace("cds");
    }

    fn replace(&self, kind: &str) {
        // Envoy watches for moves.
        let new = self.folder.write("new", r#"{"version_info": "2", "resources": []}"#).unwrap();
        fs::rename(&new, new.with_file_name(kind)).unwrap();
    }
}

/// A cluster without a name.
const INVALID: &str =
    r#"{"resources": [{"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster"}]}"#;
