//! The webhook server from outside: the built program, real sockets and real TLS.

#![allow(clippy::unwrap_used, reason = "what a test's own helpers unwrap fails that test")]

mod answers;
mod client;
mod configuration;
mod lifetime;
mod limits;
mod log;
mod program;
mod router;
