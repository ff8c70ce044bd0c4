//! Resource types that the agent itself subscribes to.

pub use pilot_xds::name_table::{NameInfo, NameTable};
use prost::Message;

/// Additional roots in `istio.mesh.v1alpha1.ProxyConfig`. Its other fields are ignored.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProxyConfig {
    /// Roots to trust beside the mesh's, as PEM.
    #[prost(string, repeated, tag = "34")]
    pub ca_certificates_pem: Vec<String>,
}

/// Health of the application, reported to the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplicationHealth {
    /// The application serves.
    Healthy,
    /// The application does not serve, for this reason.
    Unhealthy(String),
}
