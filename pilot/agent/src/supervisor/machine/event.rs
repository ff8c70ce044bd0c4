//! Events, actions and timers of the machine.

use std::fmt;
use std::time::Duration;

use super::Settings;

/// Number of a bootstrap. Equal bootstraps have equal numbers.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Revision(pub u64);

/// Input of the machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// Times and limits from now on.
    Settings(Settings),
    /// The desired bootstrap is now this one.
    Desired(Revision),
    /// Result of [`Action::Check`] or [`Action::Validate`].
    Checked(Revision, Verdict),
    /// The epoch's admin interface answers.
    Responding(u32),
    /// The epoch has started its workers, and has taken over the listeners of its parent.
    Live(u32),
    /// The epoch's process has ended, or could not be started.
    Exited(u32, ExitStatus),
    /// The serving Envoy no longer answers on its admin port.
    AdminLost,
    /// A timer expired.
    Timer(Timer),
    /// `POST /drain`.
    DrainRequested,
    /// Result of [`Action::CountConnections`].
    Connections(Connections),
    /// `POST /quitquitquit`.
    Quit,
    /// SIGTERM or SIGINT.
    Terminate,
}

/// Result of checking a bootstrap, and the preconditions of a hot restart.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Envoy accepts the bootstrap, and a hot restart is possible.
    Allowed,
    /// The environment forbids it at the moment, for example for lack of memory.
    Blocked(String),
    /// Envoy rejects the bootstrap or a flag, with this reason.
    Rejected(String),
    /// Envoy did not come to a result.
    Failed(String),
}

/// Exit status of a process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ExitStatus {
    /// Exit code 0.
    Clean,
    /// Another exit code, or a signal.
    Failed(String),
}

/// Active connections of the serving Envoy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Connections {
    /// Their number.
    Active(u64),
    /// The statistics do not contain the number.
    Unknown,
    /// The admin interface did not answer.
    Failed,
}

/// Output of the machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Checks the preconditions of a hot restart. [`Event::Checked`] follows.
    Check(Revision),
    /// Lets Envoy validate a bootstrap. [`Event::Checked`] follows.
    Validate(Revision),
    /// Starts Envoy. [`Event::Live`] or [`Event::Exited`] follows.
    Spawn {
        /// Restart epoch.
        epoch: u32,
        /// Its bootstrap.
        revision: Revision,
    },
    /// Sends SIGTERM to an epoch.
    Terminate(u32),
    /// Sends SIGKILL to an epoch.
    Kill(u32),
    /// Starts a timer, or restarts it.
    Arm(Timer, Duration),
    /// Stops a timer.
    Disarm(Timer),
    /// Drains the listeners of the serving epoch.
    DrainListeners,
    /// Counts connections. [`Event::Connections`] follows.
    CountConnections,
    /// Publishes the serving epoch.
    Publish(Option<u32>),
    /// Sets or clears the condition of the bootstrap.
    Report(Option<String>),
    /// Counts a failed start.
    CountFailure,
    /// Ends supervision. No process is left.
    Exit(Exit),
}

/// Timer of the machine. Each exists once.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Timer {
    /// Deadline of a starting epoch.
    Guard(u32),
    /// Deadline of an epoch that is to exit.
    Kill(u32),
    /// Delay before the next attempt to start.
    Retry,
    /// Delay before preconditions are checked again.
    Recheck,
    /// Interval of the rate limit.
    RateLimit,
    /// Interval between counts of connections.
    CountConnections,
    /// End of draining.
    DrainDeadline,
}

/// End of supervision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Exit {
    /// SIGTERM or SIGINT.
    Terminated,
    /// SIGTERM or SIGINT before any Envoy has served.
    NeverServed,
    /// `POST /quitquitquit`.
    Quit,
    /// The serving Envoy exited with code 0, for example after `/quitquitquit` of its own admin
    /// interface.
    EnvoyQuit,
    /// The serving Envoy exited with an error.
    EnvoyExited(String),
    /// Envoy did not start, and its retry budget is exhausted.
    StartFailed(String),
    /// Envoy did not start, and rejects its bootstrap or a flag.
    BootstrapRejected(String),
    /// A changed bootstrap needs a restart of the container.
    BootstrapChanged,
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clean => "exit code 0",
            Self::Failed(reason) => reason,
        })
    }
}

impl Exit {
    /// True if the agent must exit with an error. [`Exit::BootstrapChanged`] and
    /// [`Exit::NeverServed`] do too: the kubelet restarts a container with `restartPolicy:
    /// OnFailure` only then.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Terminated | Self::Quit | Self::EnvoyQuit)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminated => f.write_str("the agent received a termination signal"),
            Self::NeverServed => f.write_str(
                "the agent received a termination signal before Envoy served; if a postStart hook \
                 failed, Envoy had no configuration in time, and the lines above say why",
            ),
            Self::Quit => f.write_str("the agent was asked to quit"),
            Self::EnvoyQuit => f.write_str("Envoy exited on its own (exit code 0)"),
            Self::EnvoyExited(reason) => write!(f, "Envoy exited: {reason}"),
            Self::StartFailed(reason) => {
                let attempts = super::retries::RETRIES + 1;
                write!(f, "Envoy did not start in {attempts} attempts: {reason}")
            }
            Self::BootstrapRejected(reason) => {
                write!(f, "Envoy did not start: it rejects its bootstrap or a flag: {reason}")
            }
            Self::BootstrapChanged => f.write_str(
                "the bootstrap changed, and a hot restart is not possible; the container must \
                 restart",
            ),
        }
    }
}
