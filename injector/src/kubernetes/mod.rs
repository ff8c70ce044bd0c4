//! Facts of Kubernetes' API: pods, workloads, quantities, selectors, the strategic merge patch.

pub(crate) mod api_defaults;
pub(crate) mod image_reference;
pub mod label_selector;
pub mod merge;
pub mod native_sidecars;
pub mod pod;
pub(crate) mod pod_schema;
pub(crate) mod port_identity;
pub mod quantity;
pub mod webhook_configuration;
pub(crate) mod windows;
pub mod workload;
pub(crate) mod zero_fields;
