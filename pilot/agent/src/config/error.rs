//! Errors of the configuration.

use std::collections::BTreeMap;

use crate::environment::{EnvironmentError, NotText};

/// Invalid input of the configuration. The message names the flag, variable, annotation or file.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A variable has an invalid value.
    #[error(transparent)]
    Variable(#[from] EnvironmentError),
    /// A variable is not text.
    #[error(transparent)]
    NotText(#[from] NotText),
    /// A required variable is unset.
    #[error(
        "{variable} is not set; hint: set it in the container's environment by fieldRef {field}"
    )]
    Unset {
        /// Name of the variable.
        variable: &'static str,
        /// Field of the pod that it holds.
        field: &'static str,
    },
    /// A variable asks for a function that does not exist.
    #[error("{variable}={value} is not supported: {reason}")]
    Unsupported {
        /// Name of the variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// Reason, and supported values.
        reason: &'static str,
    },
    /// A layer of `ProxyConfig` is invalid.
    #[error("{layer}: {problem}")]
    Layer {
        /// Source of the layer: a flag, a variable, an annotation or a file.
        layer: String,
        /// Field, value and accepted values.
        problem: String,
    },
    /// A file cannot be read.
    #[error("reading {file}: {problem}")]
    File {
        /// Path of the file.
        file: String,
        /// Reason.
        problem: String,
    },
    /// Two listeners of the pod would have the same port.
    #[error("{first} and {second} both have port {port}; hint: set another port")]
    Ports {
        /// Setting or function with the port.
        first: &'static str,
        /// Setting with the same port.
        second: &'static str,
        /// Port.
        port: u16,
    },
    /// An annotation has an invalid value.
    #[error("annotation {annotation} has the invalid value {value:?}: {problem}")]
    Annotation {
        /// Key of the annotation.
        annotation: &'static str,
        /// Its value, shortened.
        value: String,
        /// Problem, and accepted values.
        problem: String,
    },
    /// A field of the merged `ProxyConfig` cannot be used by this agent.
    #[error("ProxyConfig field {field}: {problem}")]
    Field {
        /// Path of the field.
        field: String,
        /// Problem, and the supported alternative.
        problem: String,
    },
}

impl ConfigError {
    /// Returns true if a flag has the invalid value.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Layer { layer, .. } => layer.starts_with("--"),
            Self::Ports { first, second, .. } => {
                [first, second].iter().any(|it| it.starts_with("--"))
            }
            _ => false,
        }
    }

    /// Names the layer of a field. `layers` has the highest one of each field.
    pub(super) fn with_layer(self, layers: &BTreeMap<String, String>) -> Self {
        let Self::Field { field, problem } = self else { return self };
        let root = field.split('.').next().unwrap_or_default();
        match layers.get(root) {
            Some(layer) => Self::layer(layer.as_str(), &format!("{field}: {problem}")),
            None => Self::Field { field, problem },
        }
    }

    /// Returns the error about a layer of `ProxyConfig`. The problem may quote a value of any
    /// length. Of the flags, the one with the field's name is named.
    pub(super) fn layer(layer: impl Into<String>, problem: &str) -> Self {
        let layer = layer.into();
        let (layer, problem) = match problem.split_once(": ").filter(|_| layer == FLAGS) {
            Some((field, problem)) => (format!("--{field}"), problem),
            None => (layer, problem),
        };
        Self::Layer { layer, problem: documents::excerpt::shorten(problem).into_owned() }
    }

    /// Returns the error about an annotation.
    pub(super) fn annotation(key: &'static str, value: &str, problem: impl Into<String>) -> Self {
        let value = documents::excerpt::shorten(value).into_owned();
        Self::Annotation { annotation: key, value, problem: problem.into() }
    }

    /// Returns the error about a field of `ProxyConfig`.
    pub(super) fn field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Field { field: field.into(), problem: problem.into() }
    }
}

/// Layer of the flags of 2017, each of which has the name of its field.
pub(super) const FLAGS: &str = "flags of the command line";
