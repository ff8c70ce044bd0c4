//! Processes of Envoy: start, signals by pidfd, description of their end.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid,
};
use tokio::process::{Child, Command};

/// Handle of a child process, for signals.
#[derive(Debug)]
pub(super) struct Process {
    id: u32,
    handle: OwnedFd,
}

impl Process {
    /// Starts Envoy through `envoy-child` of the agent's program. The calling thread must live as
    /// long as the agent.
    pub(super) fn start(
        agent: &Path,
        envoy: &Path,
        arguments: &[OsString],
        stdout: Stdio,
        stderr: Stdio,
    ) -> io::Result<(Self, Child)> {
        let child = Command::new(agent)
            .arg("envoy-child")
            .arg(std::process::id().to_string())
            .arg(envoy)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            // A signal to the agent's group is the agent's to handle: it drains.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().unwrap_or_default();
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
        // The id cannot be recycled before the process has been waited for.
        let handle = pidfd_open(pid, PidfdFlags::empty())?;
        Ok((Self { id, handle }, child))
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Sends a signal. A process that has ended already is no error.
    pub(super) fn signal(&self, signal: Signal) {
        if let Err(error) = pidfd_send_signal(&self.handle, signal) {
            tracing::debug!("sending a signal to Envoy (process {}): {error}", self.id);
        }
    }
}

/// Describes an exit status for users: `exit code 1`, `killed by SIGKILL`.
pub(super) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => match SIGNALS.iter().find(|(number, _)| *number == signal) {
            Some((_, name)) => format!("killed by {name}"),
            None => format!("killed by signal {signal}"),
        },
        (None, None) => "unknown exit status".to_owned(),
    }
}

/// Reaps ended children of the agent other than `own`: orphans, which Linux gives to process 1.
pub(super) fn reap_orphans(own: &[u32]) {
    let agent = std::process::id();
    let Ok(children) = std::fs::read_to_string(format!("/proc/{agent}/task/{agent}/children"))
    else {
        return;
    };
    let children = children.split_whitespace().filter_map(|word| word.parse::<u32>().ok());
    for child in children.filter(|child| !own.contains(child)) {
        if let Some(pid) = i32::try_from(child).ok().and_then(Pid::from_raw) {
            // A child that still runs remains.
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

const SIGNALS: [(i32, &str); 7] = [
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (15, "SIGTERM"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_status_is_described() {
        assert_eq!(describe(ExitStatus::from_raw(1 << 8)), "exit code 1");
        assert_eq!(describe(ExitStatus::from_raw(9)), "killed by SIGKILL");
        assert_eq!(describe(ExitStatus::from_raw(40)), "killed by signal 40");
    }
}
