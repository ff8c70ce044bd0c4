//! The agent beside Envoy: bootstrap, supervision, status port, xDS relay, certificates, DNS.

pub mod admin;
pub mod agent;
pub mod app;
pub mod arguments;
pub mod bootstrap;
pub mod channel;
pub mod cli;
pub mod commands;
pub mod config;
pub mod connections;
pub mod dns;
pub mod downward_api;
pub mod environment;
pub mod health;
pub mod http;
mod json_object;
pub mod layout;
pub mod log;
pub mod log_limit;
pub mod node;
pub mod passthrough;
#[cfg(test)]
mod reference;
pub mod relay;
pub mod resolv_conf;
pub mod secrets;
pub mod status;
pub mod supervisor;
pub mod watch;
