//! Istio-compatible sidecar injection.
//!
//! [`inject::inject`] is the whole of it as a pure function: a pod and the [`settings`] in, the
//! injected pod with its patch and warnings out. [`webhook`] serves it to an API server, [`cli`]
//! applies it to files; neither is known to the modules before them. [`report`] says which pods are not
//! as injection would have them, of what [`cluster`] reads.

mod absent;
pub mod advice;
mod api_defaults;
pub mod budget;
pub mod change;
pub mod cli;
pub mod cluster;
pub mod cluster_facts;
pub mod decision;
pub mod earlier;
mod form;
mod give_way;
mod go_types;
pub mod inject;
mod inject_error;
pub mod injected;
mod limits;
pub mod manifest;
pub mod merge;
mod moved_proxy;
pub mod native_sidecars;
mod omitted;
pub mod overlay;
pub mod overrides;
pub mod own_volumes;
pub mod patch;
mod plan;
pub mod postprocess;
pub mod proxy_user;
pub mod quantity;
pub mod reason;
pub mod report;
pub mod requested;
pub mod resources;
pub mod settings;
mod target;
pub mod webhook;
pub mod workload;
pub mod written;
pub mod yaml;
