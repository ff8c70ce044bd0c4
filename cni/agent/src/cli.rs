//! Entry point: parses the command line and runs a command.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use kube_access::with_causes;
use reason::hint::on_lines;

use crate::args::{Arguments, Command};
use crate::{run, uninstall};

/// Runs the program.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::read(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // A closed stdout or stderr cannot be reported.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
        }
    };
    arguments.log.install(arguments.log_as_json);
    for warning in arguments
        .absent
        .warnings(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
    {
        tracing::warn!("{warning}");
    }
    let done = match arguments.command {
        Some(Command::Uninstall { purge, wait }) => uninstall::uninstall(&arguments, purge)
            .and_then(|()| if wait { runtime()?.block_on(run::wait_for_end()) } else { Ok(()) }),
        Some(Command::Version) => {
            let line = writeln!(std::io::stdout(), "install-cni {}", program_version::text());
            line.context("writing the version")
        }
        Some(Command::Ready { uninstalled: true }) => uninstall::is_done(&arguments),
        Some(Command::Ready { uninstalled: false }) => run::ready(&arguments),
        None => {
            // Fails only if a provider is installed already, which then applies.
            let _ = rustls::crypto::ring::default_provider().install_default();
            runtime().and_then(|runtime| {
                let done = runtime.block_on(run::run(&arguments));
                // An attempt that waits for a lock or a disk does not hold up the end.
                runtime.shutdown_background();
                done
            })
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
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")
}

fn complain(message: &str) {
    // A closed stderr cannot be reported.
    let _ = writeln!(std::io::stderr(), "install-cni: {}", on_lines(message));
}

const USAGE: u8 = 2;

/// The table of the reference page.
#[cfg(test)]
pub(crate) const EXIT_CODES: [(u8, &str); 3] = [
    (0, "done; the agent: ended by SIGTERM or SIGINT"),
    (1, "failed; `ready`: plugin and configuration are not installed"),
    (USAGE, "invalid command line or log filter"),
];
