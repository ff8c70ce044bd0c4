//! Network configuration of a call: the plugin's entry of the configuration list with the fields
//! that the runtime adds, on standard input.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::answer::{CniError, Code, LATEST, SUPPORTED};
use crate::json_object::{FieldError, JsonObject};

/// Network configuration of a call.
#[derive(Debug)]
pub struct NetworkConfig {
    /// Version of the specification.
    pub version: String,
    /// Result of the plugins before this one.
    pub previous_result: Option<Box<RawValue>>,
    /// Namespaces whose pods are never captured.
    pub exclude_namespaces: Vec<String>,
    /// Folder of the node agent's socket: `run_dir`, or else Istio's `cni_agent_run_dir`.
    pub run_dir: PathBuf,
    /// Outcome for a pod that cannot be recognised, because neither the runtime passes annotations
    /// nor the node agent answers.
    pub on_unknown: OnUnknown,
    /// Annotations of the pod; `None` if the runtime does not pass them.
    pub annotations: Option<BTreeMap<String, String>>,
    dns: Option<Box<RawValue>>,
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

/// DNS settings of a pod, as a runtime passes them.
#[derive(Debug, Deserialize)]
pub struct Dns {
    servers: Option<Vec<String>>,
    /// The key of containerd; the conventions of CNI say lower case.
    #[serde(rename = "Servers")]
    capital: Option<Vec<String>>,
}

impl NetworkConfig {
    /// Parses standard input. As in Go, a field that is null is absent, and of two fields of one name
    /// the last one counts.
    pub fn parse(input: &[u8]) -> Result<Self, CniError> {
        let input = JsonObject::parse(input).map_err(|error| {
            let code = if error.is_data() { Code::InvalidConfig } else { Code::Decoding };
            invalid(code, &error.to_string())
        })?;
        let version: String = input.field("cniVersion")?.unwrap_or_default();
        let version = if version.is_empty() { SUPPORTED[0].to_owned() } else { version };
        if !SUPPORTED.contains(&version.as_str()) {
            let supported = SUPPORTED.join(", ");
            let message = format!("cniVersion {version:?} is not supported");
            return Err(CniError::new(Code::IncompatibleVersion, message)
                .hint(format!("use one of {supported}")));
        }
        let runtime = input.field::<&RawValue>("runtimeConfig")?.map_or("{}", RawValue::get);
        let runtime = JsonObject::parse(runtime.as_bytes())
            .map_err(|error| invalid(Code::InvalidConfig, &format!("runtimeConfig: {error}")))?;
        let run_dir = match input.field("run_dir")? {
            None => input.field("cni_agent_run_dir")?,
            given => given,
        };
        Ok(Self {
            version,
            previous_result: input.field("prevResult")?,
            exclude_namespaces: input.field("exclude_namespaces")?.unwrap_or_default(),
            run_dir: run_dir
                .filter(|folder: &PathBuf| !folder.as_os_str().is_empty())
                .unwrap_or_else(|| PathBuf::from(RUN_DIR)),
            on_unknown: input.field("on_unknown")?.unwrap_or_default(),
            annotations: runtime.field("io.kubernetes.cri.pod-annotations")?,
            dns: runtime.field("dns")?,
        })
    }

    /// Returns the name servers of the pod; `None` if the runtime passes none.
    pub fn name_servers(&self) -> Result<Option<Vec<IpAddr>>, CniError> {
        let Some(dns) = &self.dns else { return Ok(None) };
        let dns: Dns = serde_json::from_str(dns.get()).map_err(|error| {
            invalid(Code::InvalidConfig, &format!("runtimeConfig.dns: {error}"))
        })?;
        Ok(dns.name_servers())
    }
}

impl Dns {
    /// Returns the addresses of the name servers; `None` if there are none.
    pub fn name_servers(&self) -> Option<Vec<IpAddr>> {
        let servers = self.servers.iter().chain(&self.capital).flatten();
        let servers = servers.filter_map(|server| server.parse().ok());
        Some(servers.collect()).filter(|servers: &Vec<_>| !servers.is_empty())
    }
}

impl From<FieldError> for CniError {
    fn from(error: FieldError) -> Self {
        invalid(Code::InvalidConfig, &error.to_string())
    }
}

fn invalid(code: Code, what: &str) -> CniError {
    let message = format!("the network configuration on standard input is invalid: {what}");
    CniError::new(code, message).hint("see the entry istio-cni of the CNI configuration")
}

/// Returns the version in which an error about the input is written.
pub fn version_of(input: &[u8]) -> String {
    let version = JsonObject::parse(input).ok().and_then(|input| input.field("cniVersion").ok()?);
    version.unwrap_or_else(|| LATEST.to_owned())
}

/// Folder of the node agent's socket, unless the configuration names another.
const RUN_DIR: &str = "/var/run/istio-cni";

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
        assert_eq!(
            config.name_servers().unwrap().unwrap(),
            ["10.0.0.10".parse::<IpAddr>().unwrap()]
        );
        assert_eq!(config.annotations.unwrap()["a"], "b");
        assert_eq!(config.previous_result.unwrap().get(), r#"{"x": 1.50}"#);
    }

    #[test]
    fn null_is_absent_and_the_last_field_of_a_name_counts() {
        let config = NetworkConfig::parse(
            br#"{"cniVersion":"0.4.0","cniVersion":"1.0.0","exclude_namespaces":null,"on_unknown":null,
                "run_dir":"/run/a","cni_agent_run_dir":"/run/b","prevResult":null,
                "runtimeConfig":{"dns":{"Servers":null,"Searches":null},
                "io.kubernetes.cri.pod-annotations":null}}"#,
        )
        .unwrap();
        assert_eq!((config.version.as_str(), config.on_unknown), ("1.0.0", OnUnknown::Fail));
        assert_eq!((config.run_dir, config.exclude_namespaces), ("/run/a".into(), vec![]));
        assert!(config.annotations.is_none() && config.previous_result.is_none());
        assert_eq!(config.dns.unwrap().get(), r#"{"Servers":null,"Searches":null}"#);
        let both = br#"{"runtimeConfig":{"dns":{"Servers":["10.0.0.1"],"servers":null}}}"#;
        let servers = NetworkConfig::parse(both).unwrap().name_servers().unwrap().unwrap();
        assert_eq!(servers, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        for runtime in ["null", r#"{"dns":null}"#, r#"{"dns":{"Servers":null}}"#, r#"{"dns":{}}"#] {
            let input = format!(r#"{{"cniVersion":"1.0.0","runtimeConfig":{runtime}}}"#);
            let config = NetworkConfig::parse(input.as_bytes()).unwrap();
            assert_eq!(config.name_servers().unwrap(), None, "{runtime}");
        }
    }

    #[test]
    fn configuration_without_a_version_has_the_first_one() {
        for input in ["{}", r#"{"cniVersion":""}"#, r#"{"cniVersion":null}"#] {
            assert_eq!(NetworkConfig::parse(input.as_bytes()).unwrap().version, "0.1.0", "{input}");
        }
        assert!(NetworkConfig::parse(br#"{"cniVersion":"0.2.0"}"#).is_ok());
    }

    #[test]
    fn invalid_name_servers_are_an_error_of_captured_pods_alone() {
        let input = br#"{"cniVersion":"1.0.0","runtimeConfig":{"dns":{"servers":"10.0.0.10"}}}"#;
        let error = NetworkConfig::parse(input).unwrap().name_servers().unwrap_err();
        assert_eq!(error.code, Code::InvalidConfig);
        assert!(error.message.contains("runtimeConfig.dns: invalid type"), "{error}");
    }

    #[test]
    fn invalid_configurations_have_their_code() {
        for (input, code) in [
            ("", Code::Decoding),
            ("{", Code::Decoding),
            (r#"{"cniVersion":1}"#, Code::InvalidConfig),
            (r#"{"cniVersion":"1.0.0","exclude_namespaces":"a"}"#, Code::InvalidConfig),
            (r#"{"cniVersion":"1.0.0","on_unknown":"ask"}"#, Code::InvalidConfig),
            (r#"{"cniVersion":"2.0.0"}"#, Code::IncompatibleVersion),
        ] {
            assert_eq!(NetworkConfig::parse(input.as_bytes()).unwrap_err().code, code, "{input}");
        }
    }
}
