//! Changes of a pod after the merge: probes, metrics, metadata, the order of containers.

pub mod capture_request;
pub mod metadata;
pub mod order;
pub mod path_env;
pub mod probes;
pub mod prometheus;
