//! Inputs of a case.

use std::ffi::OsString;

use pilot_agent::arguments::{Arguments, Command};
use pilot_agent::config::{Files, Inputs};
use pilot_agent::environment::Environment;

/// Inputs of a bootstrap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) role: &'static str,
    pub(crate) flags: &'static str,
    pub(crate) addresses: &'static [&'static str],
    pub(crate) json_log: bool,
    /// Fields of `PROXY_CONFIG` about tracing.
    pub(crate) tracing: &'static str,
    /// Further fields of `PROXY_CONFIG`.
    pub(crate) layer: &'static str,
    pub(crate) environment: &'static [(&'static str, &'static str)],
    pub(crate) labels: &'static [(&'static str, &'static str)],
    pub(crate) annotations: &'static [(&'static str, &'static str)],
    /// Content of the file that Envoy merges over the bootstrap.
    pub(crate) bootstrap_override: &'static str,
}

impl Case {
    /// A sidecar with one IPv4 address.
    pub(crate) const DEFAULT: Self = Self {
        role: "sidecar",
        flags: "",
        addresses: &["10.0.0.1"],
        json_log: false,
        tracing: "",
        layer: "",
        environment: &[],
        labels: &[],
        annotations: &[],
        bootstrap_override: "",
    };

    /// Returns the inputs of the configuration.
    pub(crate) fn inputs(&self) -> Inputs {
        let line = format!("pilot-agent proxy {} {}", self.role, self.flags);
        let words = line.split_whitespace().map(OsString::from);
        let (arguments, unknown) = Arguments::parse_lenient(words).unwrap();
        assert!(unknown.is_empty(), "{unknown:?}");
        let Command::Proxy(proxy) = arguments.command else { panic!("{line}") };
        let fields: Vec<_> =
            [self.tracing, self.layer].into_iter().filter(|fields| !fields.is_empty()).collect();
        let layer = format!("{{{}}}", fields.join(","));
        let always = [
            ("POD_NAME", "web"),
            ("POD_NAMESPACE", "shop"),
            ("INSTANCE_IP", self.addresses[0]),
            ("HOST_IP", "10.9.9.9"),
            ("PROXY_CONFIG", &layer),
        ];
        let variables = always.iter().chain(self.environment);
        let environment =
            Environment::new(variables.map(|(name, value)| (name.into(), value.into())));
        let entries = |entries: &[(&str, &str)]| {
            entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let files = Files {
            labels: entries(self.labels),
            annotations: entries(self.annotations),
            interface_addresses: self.addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
            ..Files::default()
        };
        Inputs { arguments: *proxy, json_log: self.json_log, environment, files }
    }
}

impl Default for Case {
    fn default() -> Self {
        Self::DEFAULT
    }
}
