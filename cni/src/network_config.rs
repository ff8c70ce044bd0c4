//! Network configuration of a call: the plugin's entry of the configuration list with the fields
//! that the runtime adds, on standard input.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::answer::{CniError, Code, LATEST, SUPPORTED};

/// Network configuration of a call.
#[derive(Debug, Deserialize)]
pub struct NetworkConfig {
    /// Version of the specification.
    #[serde(rename = "cniVersion")]
    pub version: String,
    /// Result of the plugins before this one.
    #[serde(rename = "prevResult")]
    pub previous_result: Option<Box<RawValue>>,
    /// Namespaces whose pods are never captured.
    #[serde(default)]
    pub exclude_namespaces: Vec<String>,
    /// Folder of the node agent's socket. The second name is Istio's.
    #[serde(default = "default_run_dir", alias = "cni_agent_run_dir")]
    pub run_dir: PathBuf,
    /// Outcome for a pod that cannot be recognised, because neither the runtime passes annotations
    /// nor the node agent answers.
    #[serde(default)]
    pub on_unknown: OnUnknown,
    #[serde(rename = "runtimeConfig", default)]
    runtime: RuntimeConfig,
}

/// Outcome for a pod that cannot be recognised.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum OnUnknown {
    /// The pod does not start; the kubelet tries again.
    #[default]
    Fail,
    /// The pod starts without capture.
    Pass,
}

#[derive(Debug, Default, Deserialize)]
struct RuntimeConfig {
    #[serde(rename = "io.kubernetes.cri.pod-annotations")]
    annotations: Option<BTreeMap<String, String>>,
    dns: Option<Dns>,
}

#[derive(Debug, Deserialize)]
struct Dns {
    /// containerd writes capitals, the conventions of CNI say lower case.
    #[serde(default, alias = "Servers")]
    servers: Vec<String>,
}

impl NetworkConfig {
    /// Parses standard input.
    pub fn parse(input: &[u8]) -> Result<Self, CniError> {
        let config: Self = serde_json::from_slice(input).map_err(|error| {
            let message =
                format!("the network configuration on standard input is invalid: {error}");
            let code = if error.is_data() { Code::InvalidConfig } else { Code::Decoding };
            CniError::new(code, message).hint("see the entry istio-cni of the CNI configuration")
        })?;
        if !SUPPORTED.contains(&config.version.as_str()) {
            let supported = SUPPORTED.join(", ");
            let message = format!("cniVersion {:?} is not supported", config.version);
            return Err(CniError::new(Code::IncompatibleVersion, message)
                .hint(format!("use one of {supported}")));
        }
        Ok(config)
    }

    /// Returns the pod's annotations; `None` if the runtime does not pass them.
    pub fn annotations(&self) -> Option<&BTreeMap<String, String>> {
        self.runtime.annotations.as_ref()
    }

    /// Returns the name servers of the pod; `None` if the runtime passes none.
    pub fn name_servers(&self) -> Option<Vec<IpAddr>> {
        let servers = &self.runtime.dns.as_ref()?.servers;
        let servers: Vec<IpAddr> =
            servers.iter().filter_map(|server| server.parse().ok()).collect();
        (!servers.is_empty()).then_some(servers)
    }
}

/// Returns the version in which an error about the input is written.
pub fn version_of(input: &[u8]) -> String {
    #[derive(Deserialize)]
    struct OnlyVersion {
        #[serde(rename = "cniVersion")]
        version: String,
    }
    let parsed = serde_json::from_slice(input).ok();
    parsed.map_or_else(|| LATEST.to_owned(), |OnlyVersion { version }| version)
}

fn default_run_dir() -> PathBuf {
    PathBuf::from("/var/run/istio-cni")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_runtimes_are_parsed() {
        let config = NetworkConfig::parse(
            br#"{"cniVersion":"1.0.0","name":"k8s","type":"istio-cni","capabilities":{"dns":true},
                "cni_agent_run_dir":"/run/a","plugin_log_level":"debug",
                "runtimeConfig":{"dns":{"Servers":["10.0.0.10","x"]},
                "io.kubernetes.cri.pod-annotations":{"a":"b"}},"prevResult":{"x": 1.50}}"#,
        )
        .unwrap();
        assert_eq!(config.run_dir, PathBuf::from("/run/a"));
        assert_eq!(config.name_servers().unwrap(), ["10.0.0.10".parse::<IpAddr>().unwrap()]);
        assert_eq!(config.annotations().unwrap()["a"], "b");
        assert_eq!(config.previous_result.unwrap().get(), r#"{"x": 1.50}"#);
    }

    #[test]
    fn invalid_configurations_have_their_code() {
        for (input, code) in [
            ("", Code::Decoding),
            ("{", Code::Decoding),
            ("{}", Code::InvalidConfig),
            (r#"{"cniVersion":"1.0.0","exclude_namespaces":"a"}"#, Code::InvalidConfig),
            (r#"{"cniVersion":"1.0.0","on_unknown":"ask"}"#, Code::InvalidConfig),
            (r#"{"cniVersion":"0.2.0"}"#, Code::IncompatibleVersion),
            (r#"{"cniVersion":"2.0.0"}"#, Code::IncompatibleVersion),
        ] {
            assert_eq!(NetworkConfig::parse(input.as_bytes()).unwrap_err().code, code, "{input}");
        }
    }
}
