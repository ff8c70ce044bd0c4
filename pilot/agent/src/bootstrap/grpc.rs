//! Bootstrap of gRPC applications that speak xDS themselves.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use crate::config::Config;
use crate::node::Node;

/// Returns the bootstrap. Relative paths of the configuration start at `working_directory`.
/// Without `OUTPUT_CERTS` there is no certificate provider.
pub fn bootstrap(config: &Config, node: &Node, working_directory: &Path) -> Value {
    let socket = absolute(working_directory, &config.paths.configuration.join("XDS"));
    let mut bootstrap = json!({
        "xds_servers": [{
            "server_uri": format!("unix://{}", socket.display()),
            "channel_creds": [{ "type": "insecure" }],
            "server_features": ["xds_v3"],
        }],
        "node": node.to_json(),
        "server_listener_resource_name_template": "xds.istio.io/grpc/lds/inbound/%s",
    });
    if let Some(folder) = &config.certificates.output {
        let file =
            |name: &str| absolute(working_directory, &folder.join(name)).display().to_string();
        bootstrap["certificate_providers"] = json!({ "default": {
            "plugin_name": "file_watcher",
            "config": {
                "certificate_file": file("cert-chain.pem"),
                "private_key_file": file("key.pem"),
                "ca_certificate_file": file("root-cert.pem"),
                "refresh_interval": "900s",
            },
        } });
    }
    bootstrap
}

/// Returns an absolute path without `.` components.
fn absolute(working_directory: &Path, path: &Path) -> PathBuf {
    let joined = working_directory.join(path);
    joined.components().filter(|component| *component != Component::CurDir).collect()
}
