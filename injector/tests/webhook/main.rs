//! The webhook server as a black box: the built program, real sockets and real TLS.

#![allow(clippy::unwrap_used, reason = "what a test's own helpers unwrap fails that test")]

mod answers;
mod certificate;
mod client;
mod configuration;
mod costs;
mod flood;
mod lifetime;
mod limits;
mod log;
#[allow(dead_code, reason = "the stories of the cluster use the rest of it")]
mod program;
mod router;
mod tls;
mod unusual_pods;

use std::process::Command;

/// The built program.
fn sidecar_injector() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
}
