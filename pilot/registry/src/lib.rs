//! Services model of the mesh, independent of the platform: services, their endpoints, and the
//! workloads behind them.

pub mod changes;
pub mod endpoint;
pub mod event;
#[cfg(feature = "files")]
pub mod files;
mod hash;
pub mod hostname;
pub mod index;
mod intern;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod labels;
pub mod locality;
pub mod manifest;
pub mod names;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod protocol;
pub mod service;
pub mod slice;
pub mod snapshot;
pub mod workload;
