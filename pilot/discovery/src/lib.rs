//! The control plane of the mesh: it watches services and settings, and publishes the
//! configuration of each proxy by xDS.

pub mod args;
pub mod authentication;
pub mod certificates;
pub mod cli;
pub mod connections;
pub mod debug;
pub mod environment;
pub mod grpc;
pub mod identity;
pub mod listener;
pub mod metrics;
pub mod node;
mod open_requests;
pub mod publish;
#[cfg(test)]
mod reference;
pub mod resources;
pub mod server;
pub mod source;
pub mod sources;
pub mod stream_rate;
