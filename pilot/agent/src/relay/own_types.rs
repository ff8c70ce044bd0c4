//! Resource types that the agent itself subscribes to.

use std::collections::BTreeMap;

use prost::Message;

/// Names for the DNS proxy, `istio.networking.nds.v1.NameTable`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct NameTable {
    /// Entries by host name.
    #[prost(btree_map = "string, message", tag = "1")]
    pub table: BTreeMap<String, NameInfo>,
    /// One entry, where delta xDS sends each host as a resource of its own.
    #[prost(message, optional, tag = "2")]
    pub name_info: Option<NameInfo>,
}

/// Addresses and origin of a host, `istio.networking.nds.v1.NameTable.NameInfo`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct NameInfo {
    /// Addresses of both families.
    #[prost(string, repeated, tag = "1")]
    pub ips: Vec<String>,
    /// Service registry that the host comes from, such as `Kubernetes`.
    #[prost(string, tag = "2")]
    pub registry: String,
    /// Name of the Kubernetes Service.
    #[prost(string, tag = "3")]
    pub shortname: String,
    /// Namespace of the Kubernetes Service.
    #[prost(string, tag = "4")]
    pub namespace: String,
}

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
