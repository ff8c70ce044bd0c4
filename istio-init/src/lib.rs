//! Istio's traffic capture: which rules a pod's network namespace needs, as data, and the kernel
//! interface that installs them.
//!
//! The way through is `args` (flags and environment, as typed) to `config` (what they mean) to
//! `plan` (the rules). These, and `render`, take values and return values. Only `kernel` and `cli`
//! touch the machine.

pub mod args;
pub mod backend;
pub mod cidr;
pub mod cli;
pub mod command;
pub mod complaint;
pub mod config;
pub mod explain;
pub mod family;
pub mod flag;
pub mod host;
pub mod interface;
pub mod json;
pub mod kernel;
mod log;
pub mod mark;
pub mod observed;
pub mod owner;
pub mod plan;
pub mod port;
pub mod probe;
pub mod protocol;
pub mod render;
pub mod route;
pub mod variable;
pub mod verify;
