//! Input of the configuration: command line, environment and the content of files.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::addresses;
use super::error::ConfigError;
use super::options::Paths;
use local_files::read_text_file;

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
    pub fn read(
        arguments: ProxyArgs,
        json_log: bool,
        environment: Environment,
    ) -> Result<Self, ConfigError> {
        let files = Files::read(&arguments.mesh_config)?;
        Ok(Self { arguments, json_log, environment, files })
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
    /// Reads the files again. Network and resolver are those of before: listeners depend on them.
    pub fn read_again(&self, mesh_config: &Path) -> Result<Self, ConfigError> {
        let Self { mesh, labels, annotations, .. } = Self::read(mesh_config)?;
        let Self { resolv_conf, interface_addresses, .. } = self.clone();
        Ok(Self { mesh, labels, annotations, resolv_conf, interface_addresses })
    }

    /// Reads the files. A file that does not exist is empty: outside Kubernetes there are none.
    pub fn read(mesh_config: &Path) -> Result<Self, ConfigError> {
        let pod_info = Paths::default().pod_info;
        let text = |path: &Path| {
            read_text(path, &path.display().to_string()).map(Option::unwrap_or_default)
        };
        let entries = |name: &str| {
            let file = pod_info.join(name);
            downward_api::parse(&text(&file)?).map_err(|problem| ConfigError::File {
                file: file.display().to_string(),
                problem: problem.to_string(),
            })
        };
        // The kernel's files have no size.
        let network =
            |name: &str| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
        Ok(Self {
            mesh: read_text(mesh_config, &format!("{} (--meshConfig)", mesh_config.display()))?,
            labels: entries("labels")?,
            annotations: entries("annotations")?,
            resolv_conf: text(Path::new(super::RESOLV_CONF))?,
            interface_addresses: addresses::of_interfaces(
                &network("fib_trie"),
                &network("if_inet6"),
            ),
        })
    }
}

/// Returns the text of a file; `None` if it does not exist. The error has its name.
fn read_text(path: &Path, name: &str) -> Result<Option<String>, ConfigError> {
    match read_text_file(path) {
        Ok(text) => Ok(Some(text.to_string())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConfigError::File { file: name.to_owned(), problem: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_file_alone_counts_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_text(&folder.path().join("mesh"), "mesh"), Ok(None));
        for path in [folder.path(), Path::new("/dev/zero")] {
            let error = Files::read(path).unwrap_err().to_string();
            let expected = format!("reading {} (--meshConfig): not a regular file", path.display());
            assert_eq!(error, expected);
        }
    }
}
