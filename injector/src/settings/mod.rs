//! What injection is configured by, parsed once.

pub mod annotations;

/// Everything injection is configured by.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the process was started with.
    pub process: Process,
}

/// The documents settings are read from; `None` means the embedded default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Documents<'a> {
    /// The `config` document of the ConfigMap `istio-sidecar-injector`.
    pub inject_config: Option<Document<'a>>,
    /// The `values` document of the same ConfigMap, JSON or YAML.
    pub values: Option<Document<'a>>,
    /// The `mesh` document of the ConfigMap `istio`.
    pub mesh_config: Option<Document<'a>>,
}

/// A document and where it came from, for messages: a file's path or `ConfigMap ns/name, key`.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// Where it came from.
    pub source: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// What the process was started with, by flag or environment.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The control plane's revision; empty means the default one.
    pub revision: String,
    /// Whether the proxy becomes a native sidecar where a pod does not say.
    pub native_sidecars: bool,
    /// `COMPLIANCE_POLICY` of the process, handed to the proxy; empty for none.
    pub compliance_policy: String,
}

impl Settings {
    /// Parses the documents. An error names the document's source, the key, the value and what
    /// is allowed.
    pub fn parse(documents: &Documents<'_>, process: Process) -> Result<Self, SettingsError> {
        let _ = documents;
        Ok(Self { process })
    }
}

/// A document that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct SettingsError {
    /// Where the document came from.
    pub origin: String,
    /// What is wrong with it.
    pub problem: String,
}
