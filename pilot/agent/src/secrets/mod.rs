//! Workload certificates: request, rotation, and SDS for Envoy.

pub mod certificate;
pub mod csr;
pub mod files;
pub mod messages;
pub mod output;
mod pem;
pub mod resource;
pub mod schedule;
pub mod session;
pub mod store;
pub mod trust;
