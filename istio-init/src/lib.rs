//! Traffic capture in Istio's way: the rules of a pod's network namespace as data, and the
//! backends that install them.
//!
//! `args` parses flags and environment, `config` validates their values, `plan` makes rules of
//! them. These modules, `explain`, `picture` and `render` are pure. `netlink`, `backend`, `probe` and `cli` access the
//! machine.

pub mod args;
pub mod backend;
pub mod cli;
pub mod config;
pub mod explain;
pub mod json;
mod log;
pub mod netlink;
pub mod picture;
pub mod plan;
pub mod probe;
pub mod render;
pub mod types;
pub mod verify;
