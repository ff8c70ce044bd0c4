//! Generated configuration: tables of its rules, its inner consistency, and the verdict of the real
//! Envoy.

#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

mod access_log;
mod calls;
mod cases;
mod closed;
mod consistency;
mod headless;
mod held;
mod inbound;
#[path = "../../../agent/tests/status/istio_init.rs"]
mod istio_init;
mod loaded;
mod paths;
mod pods;
mod policies;
mod proxy;
mod reports;
mod server;
mod tables;
mod world;
