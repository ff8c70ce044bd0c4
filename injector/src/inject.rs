//! The way through: a pod in, an [`Injection`] out.

use serde_json::Value;

use crate::decision::Rules;
use crate::reason::Reason;
use crate::settings::Settings;
use crate::workload::Workload;

/// Injects the pod, or says why not.
///
/// Pure: the same settings and target always give the same outcome, byte for byte.
pub fn inject(settings: &Settings, target: &Target<'_>) -> Result<Outcome, InjectError> {
    let _ = (settings, target);
    Ok(Outcome::Skipped(Reason::new("not_built", "not built yet")))
}

/// What is to be injected.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The pod (or pod template): an object with `metadata` and `spec`.
    pub pod: &'a Value,
    /// The namespace of the request, or of the workload in a file; empty where it is not known.
    pub namespace: &'a str,
    /// The workload, where the caller knows it; otherwise it is inferred from the pod.
    pub workload: Option<Workload>,
    /// Environment for the proxy from the webhook's path, in any order
    /// (`/inject/cluster/c1/net/n1`).
    pub path_env: &'a [(String, String)],
    /// Which rules decide.
    pub rules: Rules,
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The pod was injected.
    Injected(Box<Injection>),
    /// The pod stays as it is.
    Skipped(Reason),
}

/// An injected pod and how it came about.
#[derive(Clone, Debug)]
pub struct Injection {
    /// The pod after injection.
    pub pod: Value,
    /// RFC 6902: turns the target's pod into `pod`.
    pub patch: json_patch::Patch,
    /// What the user should know.
    pub warnings: Vec<Reason>,
}

/// Why a pod cannot be injected. Its message names the annotation or setting at fault.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// One or more annotations of the pod are wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Annotations(Vec<crate::settings::annotations::AnnotationError>),
    /// The pod itself has a form that cannot be injected.
    #[error("pod: {0}")]
    Pod(String),
}

impl InjectError {
    /// The word for logs and metrics, as [`Reason::word`].
    pub fn word(&self) -> &'static str {
        match self {
            Self::Annotations(_) => "bad_annotation",
            Self::Pod(_) => "bad_pod",
        }
    }
}
