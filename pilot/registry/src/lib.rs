//! Services model of the mesh, independent of the platform: services, their endpoints, and the
//! workloads behind them.

pub mod endpoint;
pub mod hostname;
pub mod locality;
pub mod protocol;
pub mod service;
pub mod workload;
