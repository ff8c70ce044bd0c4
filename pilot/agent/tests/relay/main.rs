//! The xDS relay between a client, often Envoy itself, and a control plane of the test.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a failing test may panic")]

mod address;
mod broken;
mod client;
mod debug;
mod envoy;
mod fixture;
mod flow;
mod hostile;
mod own_types;
mod reconnect;
mod resources;
mod socket;
