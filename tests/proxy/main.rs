//! The program beside Envoy in the image that stands for the proxy.
//!
//! It answers to the arguments that the injected container passes: `proxy
//! sidecar …` becomes Envoy with a static bootstrap, `request … POST drain`
//! drains it.

mod app_probe;
mod bootstrap;
mod drain;
mod envoy;

use std::env;
use std::process::ExitCode;

use anyhow::{Result, bail};

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["proxy", "sidecar", flags @ ..] => envoy::become_envoy(flags),
        ["request", .., "POST", "drain"] => drain::drain(),
        _ => bail!(
            "unknown arguments {args:?}; known are `proxy sidecar …` and `request … POST drain`"
        ),
    }
}

#[expect(clippy::print_stderr, reason = "the container's log is where this is looked for")]
fn complain(error: &anyhow::Error) {
    eprintln!("pilot-agent: {error:#}");
}
