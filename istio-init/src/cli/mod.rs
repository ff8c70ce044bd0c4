//! The program: reads the machine, runs the command, reports the result.

mod probe;
mod queries;

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::process::ExitCode;

use thiserror::Error;

use crate::args::command::{Request, Subcommand};
use crate::args::flags::Flag;
use crate::args::{Args, Environment};
use crate::backend;
use crate::backend::{Backend, BackendChoice, BackendError};
use crate::config::host_evidence::HostEvidence;
use crate::config::{Config, InvalidConfig, PodEnvironment};
use crate::log;
use crate::netlink::address;
use crate::netlink::error::KernelError;
use crate::netlink::host_namespace;
use crate::netlink::netns_lock::Lock;
use crate::plan::{Plan, plan};
use crate::probe::ProbeError;
use crate::render::iptables::families;
use crate::types::input_error::InputError;
use crate::types::owner::Accounts;
use crate::types::routes::Routes;
use crate::verify::observed::NotAPlan;

/// Runs the program. Exit codes: 0 success, 1 failure, 2 usage error, 3 difference found by
/// `verify`, 126 failed probe. Invalid input changes nothing.
pub fn main(
    command_line: impl IntoIterator<Item = OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> ExitCode {
    let environment = environment
        .into_iter()
        .map(|(name, value)| (lossy(&name), lossy(&value)))
        .collect::<Environment>();
    match run(command_line, &environment) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(usage)) => {
            // clap reports help as an error, with the right stream and exit code.
            let _ = usage.print();
            ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2))
        }
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let errors = failure.errors();
            for error in &errors {
                log::error(error);
            }
            write_termination_message(&errors);
            ExitCode::from(failure.exit_code())
        }
    }
}

#[derive(Debug, Error)]
enum Failure {
    #[error(transparent)]
    Usage(#[from] clap::Error),
    #[error("cannot read {file}: {source}")]
    Accounts { file: &'static str, source: io::Error },
    #[error(transparent)]
    Invalid(#[from] InvalidConfig),
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    NotAPlan(#[from] NotAPlan),
    #[error(
        "the installed rules differ from the plan: {missing} lines are missing, {foreign} are \
         not planned; hint: --reconcile repairs them"
    )]
    Drift { missing: usize, foreign: usize },
    #[error(
        "rules are installed by {installed}, and the plan is for {planned}; \
         hint: --reconcile reinstalls them by {planned}; without --backend, the installed ones \
         are compared"
    )]
    OtherBackend { installed: String, planned: String },
    #[error(transparent)]
    Probing(#[from] ProbeError),
    #[error("{wrong} flows do not match the plan; the first: {first}")]
    Probe { wrong: usize, first: String },
    #[error("cannot determine the user and group of this process")]
    NoOwner,
    #[error("cannot write to stdout: {0}")]
    Output(io::Error),
}

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Drift { .. } | Self::OtherBackend { .. } => DRIFT,
            Self::Probe { .. } => PROBE_FAILED,
            _ => 1,
        }
    }

    /// Returns one message per error.
    fn errors(&self) -> Vec<String> {
        match self {
            Self::Invalid(InvalidConfig(errors)) => {
                errors.iter().map(ToString::to_string).collect()
            }
            other => vec![other.to_string()],
        }
    }
}

fn run(
    command_line: impl IntoIterator<Item = OsString>,
    environment: &Environment,
) -> Result<(), Failure> {
    let request = Request::parse(command_line, environment)?;
    let args = &request.args;
    if args.is_on(Flag::LogAsJson) {
        log::write_json();
    }
    let dry_run = args.is_on(Flag::DryRun);
    match request.command {
        Subcommand::Install if !args.is_on(Flag::CleanupOnly) => {}
        Subcommand::Install | Subcommand::Cleanup => {
            log_warnings(&args.ignored);
            if dry_run {
                let (script, warnings) = backend::removal_script()?;
                log_warnings(&warnings);
                return print(&script);
            }
            log_warnings(&backend::clean_up(&lock()?)?);
            return Ok(());
        }
        _ => return queries::answer(&request),
    }
    let (plan, choice) = planned(args, host_evidence())?;
    if dry_run {
        return print(&choice.script(&plan).map_err(BackendError::from)?);
    }
    if !args.is_on(Flag::SkipRuleApply) {
        let backend = choice.choose().map_err(BackendError::from)?;
        apply(backend, &plan)?;
    }
    if args.is_on(Flag::RunValidation) { probe::validate(args, &plan) } else { Ok(()) }
}

/// Takes the lock of this network namespace; logs the runs it waits for.
fn lock() -> Result<Lock, KernelError> {
    Lock::take(|holders| {
        log::info(&format!("waiting for another run in this network namespace: {holders}"));
    })
}

/// Installs the plan and logs the result.
fn apply(backend: Backend, plan: &Plan) -> Result<(), Failure> {
    let (backend, warnings) = backend.apply(plan, &lock()?)?;
    log_warnings(&warnings);
    let families: Vec<String> = families(plan).iter().map(ToString::to_string).collect();
    let (count, by, families) = (plan.rules.len(), backend.words(plan), families.join(" and "));
    log::info(&format!("{count} rules are in force, by {by}, for {families}"));
    Ok(())
}

/// Returns evidence that this is a node's network namespace.
fn host_evidence() -> Result<HostEvidence, String> {
    let first_line = |error: KernelError| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().to_owned()
    };
    host_namespace::host_evidence().map_err(first_line)
}

/// Plans the rules that the flags define and chooses a backend. Commands that change nothing need
/// no evidence.
fn planned(
    args: &Args,
    host: Result<HostEvidence, String>,
) -> Result<(Plan, BackendChoice), Failure> {
    let pod = PodEnvironment { host, ..pod_environment()? };
    let (choice, config) = (BackendChoice::from_args(args), Config::read(args, &pod));
    let ((choice, idle), (config, warnings)) = both(choice, config)?;
    log_warnings(&idle);
    log_warnings(&warnings);
    Ok((plan(&config), choice))
}

/// Returns both values, or the errors of both.
fn both<T, U>(
    choice: Result<T, Vec<InputError>>,
    config: Result<U, InvalidConfig>,
) -> Result<(T, U), InvalidConfig> {
    match (choice, config) {
        (Ok(choice), Ok(config)) => Ok((choice, config)),
        (choice, config) => {
            let rest = config.err().map(|invalid| invalid.0).unwrap_or_default();
            Err(InvalidConfig(choice.err().into_iter().flatten().chain(rest).collect()))
        }
    }
}

fn pod_environment() -> Result<PodEnvironment, Failure> {
    let accounts = Accounts { passwd: read("/etc/passwd")?, group: read("/etc/group")? };
    let resolv_conf = fs::read_to_string("/etc/resolv.conf").map_err(|error| error.to_string());
    let addresses = address::addresses()?;
    Ok(PodEnvironment { addresses, accounts, resolv_conf, ..PodEnvironment::default() })
}

/// Returns the routes of this network namespace.
fn routes() -> Routes {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    Routes { v4: read("/proc/net/route"), v6: read("/proc/net/ipv6_route") }
}

/// Returns the file's content; empty if it does not exist, as in an image without accounts.
fn read(file: &'static str) -> Result<String, Failure> {
    match fs::read(file) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(Failure::Accounts { file, source }),
    }
}

fn print(text: &str) -> Result<(), Failure> {
    io::stdout().write_all(text.as_bytes()).map_err(Failure::Output)
}

fn log_warnings(warnings: &[String]) {
    for warning in warnings {
        log::warning(warning);
    }
}

/// Writes the first error to the file that Kubernetes shows as the container's termination message.
/// Elsewhere the file does not exist and is not created.
fn write_termination_message(errors: &[String]) {
    let Some(first) = errors.first() else { return };
    // One line for `kubectl`; stderr has the rest.
    let cause = first.lines().next().unwrap_or_default();
    let more = match errors.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    // The same text is on stderr, so an error here is ignored.
    let _ = OpenOptions::new()
        .write(true)
        .open(TERMINATION_MESSAGE)
        .and_then(|mut file| file.write_all(format!("error: {cause}{more}\n").as_bytes()));
}

fn lossy(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

/// Exit code of a failed probe, known to Istio's repair controller.
const PROBE_FAILED: u8 = 126;
/// Exit code of `verify` if rules differ.
const DRIFT: u8 = 3;
/// The table of the reference page.
#[cfg(test)]
pub(crate) const EXIT_CODES: [(u8, &str); 5] = [
    (0, "done; also if the reader of stdout has gone"),
    (1, "rejected or failed; a rejection has changed nothing"),
    (2, "invalid usage"),
    (DRIFT, "`verify` found a difference and did not repair it"),
    (PROBE_FAILED, "`probe` or `--run-validation` found a flow that does not match the plan"),
];
/// The default of a container's `terminationMessagePath`.
const TERMINATION_MESSAGE: &str = "/dev/termination-log";
