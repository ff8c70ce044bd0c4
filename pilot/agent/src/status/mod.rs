//! The status port: readiness, merged metrics, probes of the application, drain.

pub mod readiness;
