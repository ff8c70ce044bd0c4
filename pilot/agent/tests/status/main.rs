//! Status port, with real Envoy, servers that stand for applications, and capture rules.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics has failed")]

mod agent;
mod application;
mod client;
mod envoy;
mod istio_init;
mod metrics;
mod pod;
mod probes;
mod readiness;
mod requests;
