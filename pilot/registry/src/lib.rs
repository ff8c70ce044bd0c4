//! Services model of the mesh, independent of the platform: services, their endpoints, and the
//! workloads behind them.

pub mod changes;
pub mod endpoint;
pub mod event;
mod hash;
pub mod hostname;
pub mod index;
mod intern;
pub mod labels;
pub mod locality;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod protocol;
pub mod service;
pub mod slice;
pub mod snapshot;
pub mod workload;
