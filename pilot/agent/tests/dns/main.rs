//! DNS proxy in a pod's network namespace, under the DNS capture rules of `istio-init`, with name
//! servers outside.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics has failed")]

mod captured;
mod client;
mod cluster_dns;
mod compared;
mod forwarded;
#[path = "../status/istio_init.rs"]
mod istio_init;
mod name_server;
mod pod;
