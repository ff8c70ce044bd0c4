//! Read requests to a cluster. Lists are paginated, and no page is kept.

pub mod error;
pub mod hooks;
pub mod namespaces;
pub mod nodes;
mod pages;
pub mod pods;
pub mod proxy_configs;
pub(crate) mod store;
