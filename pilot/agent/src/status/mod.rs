//! The status port: readiness, merged metrics, probes of the application, drain.

pub mod merge;
pub mod metrics;
pub mod readiness;
mod sample;
pub mod targets;
