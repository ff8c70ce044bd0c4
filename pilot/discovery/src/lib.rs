//! The control plane of the mesh: it watches services and settings, and publishes the
//! configuration of each proxy by xDS.

pub mod args;
pub mod authentication;
pub mod certificates;
pub mod cli;
pub mod identity;
pub mod listener;
pub mod server;
