//! The commands of `istioctl`.

mod analyze;
mod check_inject;
mod cli;
mod client_flags;
mod cluster;
mod completion;
mod control_plane;
mod conversion;
mod describe;
mod exit_code;
mod experimental;
mod explanation;
mod files;
mod finding;
mod graph;
mod injector_list;
mod inputs;
mod istio_flags;
mod istio_objects;
mod kube_inject;
mod mesh_versions;
mod objects;
mod output;
mod output_flags;
mod parallel;
mod pod_port;
mod pod_target;
mod precheck;
mod printable;
mod program;
mod progress;
mod proxy_config;
mod proxy_status;
#[cfg(test)]
mod reference;
mod streams;
mod table;
mod tag;
mod tips;
mod unified_diff;
mod uninject;
mod unrendered;
mod version;
mod why;
mod workload_kind;
mod workload_patch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches as _;

use cli::Cli;
use completion::complete_for_kubectl;
use exit_code::{CommandOutcome, FAILED, INVALID_USAGE};
use kube_access::{is_unanswered, with_causes};
use program::Program;
pub use streams::{Streams, Terminal};

/// Runs a command line, which starts with the name of the program.
///
/// Results go to `output`, everything else to `messages`. The exit code is 0 on success, 1 on
/// failure or if `precheck` finds an object, 2 for a usage error, 3 if `--check` finds a change to make, 79 if `analyze` finds
/// issues. A reader that closes the output early is not a failure.
pub fn run(args: impl IntoIterator<Item = OsString>, streams: &mut Streams<'_>) -> ExitCode {
    let args: Vec<_> = args.into_iter().collect();
    streams.terminal.apply(color_in(&args));
    let program = Program::from_path(args.first().map(OsString::as_os_str));
    let result = match program {
        Program::KubectlCompletion => {
            complete_for_kubectl(args, streams).map(|()| CommandOutcome::Done)
        }
        _ => match parse(program, args) {
            Ok(cli) => {
                cli.apply(streams);
                cli.run(program, streams)
            }
            Err(usage) if usage.use_stderr() => Err(Failure::Usage(tips::usage_error(usage))),
            Err(help) => {
                let help = help.render();
                let colored = streams.terminal.color_output;
                let text = if colored { help.ansi().to_string() } else { help.to_string() };
                let written = output::write(streams.output, &text);
                written.map(|()| CommandOutcome::Done).map_err(Failure::from_error)
            }
        },
    };
    match result {
        Ok(outcome) => outcome.into(),
        Err(Failure::Errors(errors)) => {
            for error in errors {
                let hint = if is_unanswered(error.as_ref()) { NO_ANSWER } else { "" };
                streams.complain(&format!("error: {}{hint}", with_causes(error.as_ref())));
            }
            ExitCode::from(FAILED)
        }
        Err(Failure::Usage(message)) => {
            streams.complain(message.trim_end());
            ExitCode::from(INVALID_USAGE)
        }
    }
}

/// Returns the value of `--color`, which messages about an invalid command line follow too.
fn color_in(args: &[OsString]) -> Option<bool> {
    args.iter().rev().find_map(|arg| match arg.to_str()? {
        "--color" | "--color=true" => Some(true),
        "--color=false" => Some(false),
        _ => None,
    })
}

fn parse(program: Program, args: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = program.command();
    let matches = command.try_get_matches_from_mut(args)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
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

const NO_ANSWER: &str = "; hint: check that the API server runs and is reachable from here; \
                         --kubeconfig and --context select another cluster";
