//! Facts of Istio: labels, ports, the proxy's identity, the path of the webhook's URL.

pub(crate) mod capture_ports;
pub(crate) mod container_port;
pub mod labels;
pub(crate) mod multus;
pub(crate) mod otel_attributes;
pub mod proxy_identity;
pub mod revision_tag;
pub mod scrape_settings;
pub mod webhook_path;
