//! Exit codes of the commands.

use std::process::ExitCode;

use clap::Command;

/// Result of a command that did not fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CommandOutcome {
    Done,
    /// `analyze` found messages at or above `--failure-threshold`. The exit code is Istio's.
    FoundIssues,
    /// `precheck` found an object that loses its effect.
    LosesEffect,
    /// `--check` found a change to make.
    WouldChange,
}

impl From<CommandOutcome> for ExitCode {
    fn from(outcome: CommandOutcome) -> Self {
        match outcome {
            CommandOutcome::Done => Self::SUCCESS,
            CommandOutcome::FoundIssues => Self::from(FOUND_ISSUES),
            CommandOutcome::LosesEffect => Self::from(FAILED),
            CommandOutcome::WouldChange => Self::from(WOULD_CHANGE),
        }
    }
}

/// Returns the exit codes of a command, with their meaning.
pub(super) fn exit_codes(command: &Command) -> impl Iterator<Item = (u8, &'static str)> {
    let has = |of: &[&str]| of.is_empty() || of.contains(&command.get_name());
    EXIT_CODES.iter().filter(move |(_, of, _)| has(of)).map(|(code, _, meaning)| (*code, *meaning))
}

/// Exit code after a failure.
pub(super) const FAILED: u8 = 1;
/// Exit code after a command line that cannot be understood.
pub(super) const INVALID_USAGE: u8 = 2;
const WOULD_CHANGE: u8 = 3;
const FOUND_ISSUES: u8 = 79;

/// Each exit code with the commands that have it, or none for all, and its meaning.
pub(super) const EXIT_CODES: &[(u8, &[&str], &str)] = &[
    (0, &[], "done"),
    (FAILED, &[], "failed"),
    (FAILED, &["precheck"], "an object would lose its effect"),
    (INVALID_USAGE, &[], "invalid usage"),
    (WOULD_CHANGE, &["kube-inject", "uninject"], "with --check, an object would change"),
    (FOUND_ISSUES, &["analyze"], "a message is at or above --failure-threshold"),
];
