//! Pod of a gRPC application, which speaks xDS itself.

use anyhow::Result;

use crate::control_plane::Configuration;
use crate::fixture::{BACKEND_PORT, Pod};

/// Prepares a pod whose agent starts no Envoy.
pub(crate) fn new() -> Result<Pod> {
    with_configuration(Configuration::http(8080, BACKEND_PORT))
}

pub(crate) fn with_configuration(configuration: Configuration) -> Result<Pod> {
    let mut pod = Pod::with_configuration(configuration)?;
    pod.environment.extend(
        [
            ("DISABLE_ENVOY", "true"),
            ("ISTIO_META_GENERATOR", "grpc"),
            ("GRPC_XDS_BOOTSTRAP", BOOTSTRAP),
            ("OUTPUT_CERTS", CERTIFICATES),
        ]
        .map(|(name, value)| (name, value.to_owned())),
    );
    Ok(pod)
}

/// File of the bootstrap that the application reads.
pub(crate) const BOOTSTRAP: &str = "etc/istio/proxy/grpc-bootstrap.json";
/// Folder of the copies of the certificates.
pub(crate) const CERTIFICATES: &str = "var/lib/istio/data";
