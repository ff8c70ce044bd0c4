//! Envoy with clusters and listeners from files, as from a control plane.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use e2e::port::free_port;
use e2e::programs::Programs;
use e2e::{http, wait};
use serde_json::json;
use tempfile::TempDir;

/// A running Envoy, killed when the value is dropped.
pub(crate) struct Envoy {
    pub(crate) admin: SocketAddr,
    folder: TempDir,
    child: Child,
}

impl Envoy {
    /// Starts Envoy. Its admin interface answers when this returns.
    pub(crate) fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let admin = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let source = |kind: &str| {
            let path = folder.path().join(kind);
            fs::write(&path, r#"{"resources": []}"#).unwrap();
            json!({ "resource_api_version": "V3", "path_config_source": { "path": path } })
        };
        let bootstrap = json!({
            "node": { "id": "status", "cluster": "status" },
            "admin": { "address": { "socket_address": {
                "address": admin.ip(), "port_value": admin.port(),
            } } },
            "dynamic_resources": { "cds_config": source("cds"), "lds_config": source("lds") },
        });
        fs::write(folder.path().join("cds"), INVALID).unwrap();
        let config = folder.path().join("bootstrap.json");
        fs::write(&config, bootstrap.to_string()).unwrap();
        let child = Command::new(Programs::find().unwrap().envoy().unwrap())
            .args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "off", "-c"])
            .arg(&config)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let envoy = Self { admin, folder, child };
        wait::until("Envoy answers", || http::get(admin, "/server_info")).unwrap();
        envoy
    }

    /// Replaces the invalid clusters by none.
    pub(crate) fn accept_clusters(&self) {
        self.replace("cds");
    }

    fn replace(&self, kind: &str) {
        // Envoy watches for moves.
        let new = self.folder.path().join("new");
        fs::write(&new, r#"{"version_info": "2", "resources": []}"#).unwrap();
        fs::rename(&new, Path::new(self.folder.path()).join(kind)).unwrap();
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        // An error here would hide the test's own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A cluster without a name.
const INVALID: &str =
    r#"{"resources": [{"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster"}]}"#;
