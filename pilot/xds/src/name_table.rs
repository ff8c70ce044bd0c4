//! Istio's name table (NDS), from which the agent answers DNS queries.

use std::collections::BTreeMap;

use prost::Message;

/// Names for the DNS proxy, `istio.networking.nds.v1.NameTable`: a whole table or one entry of it.
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
