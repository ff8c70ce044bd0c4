//! What is read from a cluster, in pages of which none is kept.

pub mod error;
pub mod hooks;
pub mod namespaces;
pub mod nodes;
mod pages;
pub mod pods;
pub mod proxy_configs;
