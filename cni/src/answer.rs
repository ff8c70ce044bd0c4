//! Answers of a plugin: results and errors on standard output (CNI specification 1.1, section 5).

use std::fmt;

use serde_json::json;
use serde_json::value::RawValue;

use crate::pod::PodIdentity;

/// Error of a call. The runtime shows the message and the details in an Event of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CniError {
    /// Code of the specification.
    pub code: Code,
    /// Object, and what happened.
    pub message: String,
    /// Remedy; empty if there is none.
    pub details: String,
}

/// Code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The version of the network configuration is not supported.
    IncompatibleVersion = 1,
    /// The environment of the call is invalid.
    InvalidEnvironment = 4,
    /// Standard input cannot be read.
    Input = 5,
    /// Standard input is not JSON.
    Decoding = 6,
    /// The network configuration is invalid.
    InvalidConfig = 7,
    /// The network namespace cannot be used.
    NetworkNamespace = 8,
    /// The same call may succeed later.
    TryLater = 11,
    /// The capture request of the pod is invalid.
    InvalidRequest = 100,
    /// The kernel rejects the capture.
    Capture = 101,
    /// CHECK finds other rules than planned.
    Drift = 102,
}

impl CniError {
    /// Creates an error without a hint.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: String::new() }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.details = format!("hint: {hint}");
        self
    }

    /// Adds the pod to a message that does not name it.
    #[must_use]
    pub fn of_pod(mut self, pod: &PodIdentity) -> Self {
        let start = format!("pod {pod}: ");
        if !self.message.starts_with(&start) {
            self.message.insert_str(0, &start);
        }
        self
    }

    /// Returns the JSON object of the specification, in the version of the configuration.
    pub fn json(&self, version: &str) -> String {
        let code = self.code as u32;
        let mut object = json!({"cniVersion": version, "code": code, "msg": self.message});
        if !self.details.is_empty() {
            object["details"] = self.details.as_str().into();
        }
        object.to_string()
    }
}

impl fmt::Display for CniError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.details.is_empty() { Ok(()) } else { write!(f, "; {}", self.details) }
    }
}

/// Returns the result of ADD: that of the previous plugin byte for byte, so that fields unknown
/// here survive.
pub fn add(version: &str, previous: Option<&RawValue>) -> String {
    match previous {
        Some(previous) => previous.get().to_owned(),
        None => json!({"cniVersion": version}).to_string(),
    }
}

/// Returns the answer to VERSION.
pub fn versions() -> String {
    json!({"cniVersion": LATEST, "supportedVersions": SUPPORTED}).to_string()
}

/// Supported versions of the specification. A configuration without a version has the first one.
pub const SUPPORTED: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];
/// The latest supported version.
pub const LATEST: &str = "1.1.0";
