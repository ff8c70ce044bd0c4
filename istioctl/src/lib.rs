//! The commands of `istioctl`.

mod analyze;
mod check_inject;
mod cli;
mod cluster;
mod control_plane;
mod conversion;
mod describe;
mod experimental;
mod files;
mod finding;
mod graph;
mod injector_list;
mod inputs;
mod istio_flags;
mod kube_inject;
mod objects;
mod output;
mod output_flags;
mod parallel;
mod pod_port;
mod proxy_config;
mod proxy_status;
#[cfg(test)]
mod reference;
mod table;
mod tag;
mod tips;
mod unified_diff;
mod uninject;
mod version;
mod why;
mod workload_patch;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::ExitCode;

use clap::Parser;

use cli::Cli;
use kube_access::with_causes;

/// Runs a command line.
///
/// Results go to `output`, everything else to `messages`. The exit code is 0 on success, 1 on
/// failure, 2 for a usage error, 3 if `--check` finds a change to make, 79 if `analyze` finds
/// issues. A reader that closes the
/// output early is not a failure.
pub fn run(args: impl IntoIterator<Item = OsString>, streams: &mut Streams<'_>) -> ExitCode {
    let result = match Cli::try_parse_from(args) {
        Ok(cli) => cli.run(streams),
        Err(usage) if usage.use_stderr() => Err(Failure::Usage(tips::without_hidden_flags(usage))),
        Err(help) => {
            let written = output::write(streams.output, &help.render().to_string());
            written.map(|()| Outcome::Done).map_err(Failure::from_error)
        }
    };
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::FoundIssues) => ExitCode::from(79),
        Ok(Outcome::WouldChange) => ExitCode::from(3),
        Err(Failure::Errors(errors)) => {
            for error in errors {
                streams.say(&format!("error: {}", with_causes(error.as_ref())));
            }
            ExitCode::FAILURE
        }
        Err(Failure::Usage(message)) => {
            streams.say(message.trim_end());
            ExitCode::from(2)
        }
    }
}

/// Input and outputs of a command.
pub struct Streams<'a> {
    /// Standard input, named `-`.
    pub input: &'a mut dyn Read,
    /// The result of the command, and nothing else.
    pub output: &'a mut dyn Write,
    /// Warnings and errors.
    pub messages: &'a mut dyn Write,
}

impl Streams<'_> {
    /// Writes a message; one that cannot be written is dropped.
    fn say(&mut self, message: &str) {
        let _ = writeln!(self.messages, "{message}");
    }
}

/// Result of a command that did not fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    Done,
    /// `analyze` found messages at or above `--failure-threshold`. The exit code is Istio's.
    FoundIssues,
    /// `--check` found a change to make.
    WouldChange,
}

/// Failure of a command.
#[derive(Debug)]
enum Failure {
    /// Errors of the execution.
    Errors(Vec<anyhow::Error>),
    /// A usage error.
    Usage(String),
}

impl Failure {
    fn from_error(error: anyhow::Error) -> Self {
        Self::Errors(vec![error])
    }
}

/// The version in the form of every output.
const VERSION: &str = concat!("Outrigger ", env!("CARGO_PKG_VERSION"));
