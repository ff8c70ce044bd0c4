//! The program beside Envoy in the image that replaces the proxy's.
//!
//! It has the interface of Istio's agent that injected pods use: `proxy` runs Envoy (with a static
//! bootstrap instead of a control plane) and serves the status port, `request` is the draining
//! hook, and `wait` the hook that holds the application back.

mod admin;
mod agent;
mod app;
mod arguments;
mod bootstrap;
mod environment;
mod envoy;
mod http;
mod request;
mod status;
mod wait;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(async {
        match command {
            Command::Proxy(proxy) => agent::run(&proxy).await,
            Command::Request(request) => request::run(&request).await,
            Command::Wait(wait) => wait::run(&wait).await,
        }
    })
}

#[expect(clippy::print_stderr, reason = "the container's log is where this is looked for")]
fn complain(error: &anyhow::Error) {
    eprintln!("pilot-agent: {error:#}");
}
