//! Workload certificates: request, rotation, and SDS for Envoy.

pub mod certificate;
pub mod csr;
mod pem;
pub mod resource;
pub mod schedule;
pub mod trust;
