//! Input of the configuration: command line, environment and the content of files.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::addresses;
use super::options::Paths;
use crate::arguments::ProxyArgs;
use crate::downward_api;
use crate::environment::Environment;

/// Everything that the configuration depends on. Equal inputs give equal configurations.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Command line of `proxy`.
    pub arguments: ProxyArgs,
    /// Envoy logs JSON, as the agent does; `--log_as_json`.
    pub json_log: bool,
    /// Environment.
    pub environment: Environment,
    /// Content of files.
    pub files: Files,
}

/// Content of the files that the configuration depends on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Files {
    /// Mesh configuration; `None` if the file does not exist.
    pub mesh: Option<String>,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod.
    pub annotations: BTreeMap<String, String>,
    /// The resolver's configuration.
    pub resolv_conf: String,
    /// Addresses of the network interfaces.
    pub interface_addresses: Vec<IpAddr>,
}

impl Inputs {
    /// Returns the inputs with the current content of the files.
    pub fn read(arguments: ProxyArgs, json_log: bool, environment: Environment) -> Self {
        let files = Files::read(&arguments.mesh_config);
        Self { arguments, json_log, environment, files }
    }

    /// Returns the files that may change while the agent runs, for a watch.
    pub fn watched_files(&self) -> Vec<PathBuf> {
        let pod_info = Paths::default().pod_info;
        vec![
            self.arguments.mesh_config.clone(),
            pod_info.join("labels"),
            pod_info.join("annotations"),
        ]
    }
}

impl Files {
    /// Reads the files. A file that does not exist is empty: outside Kubernetes there are none.
    pub fn read(mesh_config: &Path) -> Self {
        let pod_info = Paths::default().pod_info;
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let network = |name: &str| text(&Path::new("/proc/net").join(name));
        Self {
            mesh: fs::read_to_string(mesh_config).ok(),
            labels: downward_api::parse(&text(&pod_info.join("labels"))),
            annotations: downward_api::parse(&text(&pod_info.join("annotations"))),
            resolv_conf: text(Path::new(super::RESOLV_CONF)),
            interface_addresses: addresses::of_interfaces(
                &network("fib_trie"),
                &network("if_inet6"),
            ),
        }
    }
}
