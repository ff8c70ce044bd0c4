//! Errors of the removal of an injection.

/// A pod whose injection cannot be removed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum UninjectError {
    /// The status annotation is invalid, so the injected parts are unknown.
    #[error(
        "annotation sidecar.istio.io/status has the invalid value {0}: expected the JSON object \
         that injection writes; hint: restore the annotation, or remove the sidecar by hand"
    )]
    Status(String),
}
