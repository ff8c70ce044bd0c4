//! Entry point: parses the command line and runs a command.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use kube_access::with_causes;
use reason::hint::on_lines;

use crate::args::{Arguments, Command};
use crate::environment::Environment;
use crate::server;

/// Runs the program.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // A closed stdout or stderr cannot be reported.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
        }
    };
    let done = match arguments.command {
        Command::Version(version) => {
            let line = writeln!(std::io::stdout(), "{}", version.text());
            line.context("writing the version")
        }
        Command::Discovery(args) => {
            if let Some(conflict) = args.conflict() {
                complain(&conflict);
                return ExitCode::from(USAGE);
            }
            arguments.log.filter.install(arguments.log.as_json);
            let environment = match Environment::parse(std::env::vars_os()) {
                Ok(environment) => environment,
                Err(error) => {
                    complain(&error);
                    return ExitCode::from(USAGE);
                }
            };
            // Fails only if a provider is installed already, which then applies.
            let _ = rustls::crypto::ring::default_provider().install_default();
            runtime().and_then(|runtime| runtime.block_on(server::run(*args, environment)))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("starting the runtime")
}

fn complain(message: &str) {
    // A closed stderr cannot be reported.
    let _ = writeln!(std::io::stderr(), "pilot-discovery: {}", on_lines(message));
}

const USAGE: u8 = 2;

/// The table of the reference page.
#[cfg(test)]
pub(crate) const EXIT_CODES: [(u8, &str); 3] = [
    (0, "done; the server: ended by SIGTERM or SIGINT"),
    (1, "failed; stderr has the reason"),
    (USAGE, "invalid command line, log filter or environment variable"),
];
