//! Entry point: parses the command line and runs a command.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use kube_access::{QUIET_CLIENT, with_causes};
use tracing_subscriber::EnvFilter;

use crate::args::{Arguments, Command, LogArgs};
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
            let environment = match install_log(&arguments.log)
                .and_then(|()| Environment::parse(std::env::vars_os()))
            {
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

fn install_log(args: &LogArgs) -> Result<(), String> {
    let filter = EnvFilter::try_new(format!("{QUIET_CLIENT},{}", args.filter));
    let filter = filter.map_err(|error| format!("--log {}: {error}", args.filter))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if args.as_json {
        log.json().init();
    } else {
        log.with_ansi(std::io::stderr().is_terminal()).init();
    }
    Ok(())
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("starting the runtime")
}

fn complain(message: &str) {
    // A closed stderr cannot be reported.
    let _ = writeln!(std::io::stderr(), "pilot-discovery: {message}");
}

const USAGE: u8 = 2;

/// The table of the reference page.
#[cfg(test)]
pub(crate) const EXIT_CODES: [(u8, &str); 3] = [
    (0, "done; the server: ended by SIGTERM or SIGINT"),
    (1, "failed; stderr has the reason"),
    (USAGE, "invalid command line, log filter or environment variable"),
];
