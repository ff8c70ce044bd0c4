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
    /// The annotation with the replaced containers of the user is invalid.
    #[error(
        "annotation proxy.istio.io/overrides has the invalid value {0}: expected the JSON object \
         that injection writes; hint: restore the annotation, or remove the sidecar by hand"
    )]
    Overrides(String),
    /// The status annotation does not name a container of the sidecar that is there.
    #[error(
        "annotation sidecar.istio.io/status does not name the container {0}, which the pod has; \
         hint: restore the annotation, or remove the sidecar by hand"
    )]
    NotNamed(&'static str),
}
