//! Changes of a pod after the merge: probes, metrics, metadata, the order of containers.

pub mod capture_request;
pub mod metadata;
pub mod order;
pub(crate) mod original_handler;
pub mod path_env;
pub mod probes;
pub mod prometheus;
