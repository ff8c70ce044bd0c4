//! Hidden subcommand `envoy-child`, which becomes Envoy.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use thiserror::Error;

/// Reason why `envoy-child` did not become Envoy.
#[derive(Debug, Error)]
pub enum EnvoyChildError {
    /// The kernel rejected the signal.
    #[error("setting the signal at the agent's end")]
    DeathSignal(#[source] io::Error),
    /// The agent ended before the signal was set.
    #[error("the agent (process {0}) has ended")]
    Orphan(u32),
    /// Envoy could not be executed.
    #[error("starting {0}")]
    Execute(String, #[source] io::Error),
}

/// Replaces this process by Envoy, which the kernel kills when the agent ends. Returns on failure
/// only.
///
/// The kernel sends the signal at the end of the agent's *thread* that started this process.
pub fn become_envoy(parent: u32, envoy: &Path, arguments: &[OsString]) -> EnvoyChildError {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return EnvoyChildError::DeathSignal(error.into());
    }
    let current = getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    if current != Some(parent) {
        return EnvoyChildError::Orphan(parent);
    }
    let error = Command::new(envoy).args(arguments).exec();
    EnvoyChildError::Execute(envoy.display().to_string(), error)
}
