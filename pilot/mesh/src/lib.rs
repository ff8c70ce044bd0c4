//! Istio's `MeshConfig` and `ProxyConfig`, parsed from documents and annotations, with their
//! defaults and their validation.

pub mod istio_kinds;
pub mod log_levels;
pub mod mesh_config;
mod proto_json;
pub mod proxy_config;
pub mod proxy_config_rules;
mod proxy_config_values;
mod proxy_field;
pub mod proxy_ports;
pub mod spiffe;
pub mod statistics;
