//! Envoys that a killed agent left behind.
//!
//! Hot restart replaces the signal that Envoy gets at the end of its agent by SIGTERM. An Envoy that
//! hangs or is stopped does not take it, and keeps ports, socket and shared memory.

use std::fs;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Kills the processes that map a shared memory and whose parent is no other agent. Call it without
/// an Envoy of one's own.
pub(super) fn kill_abandoned(segment: &Path) {
    let Ok(processes) = fs::read_dir("/proc") else { return };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for id in numbers.filter(|id| maps(*id, segment) && !has_agent(*id)) {
        tracing::warn!("killing Envoy (process {id}), which an ended agent left behind");
        kill(id);
    }
}

/// True if a process has a file in its memory. Processes of other users count as if they had not.
fn maps(id: i32, file: &Path) -> bool {
    let Some(file) = file.to_str() else { return false };
    let maps = fs::read_to_string(format!("/proc/{id}/maps"));
    maps.is_ok_and(|maps| maps.lines().any(|line| line.ends_with(file)))
}

/// True if the parent of a process is another agent.
fn has_agent(id: i32) -> bool {
    let Some(parent) = parent(id).filter(|parent| *parent != std::process::id()) else {
        return false;
    };
    let program = |id: &str| fs::read_link(format!("/proc/{id}/exe")).ok();
    let own = program("self");
    own.is_some() && program(&parent.to_string()) == own
}

fn parent(id: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Kills a process, and waits for its end.
fn kill(id: i32) {
    let Some(handle) = Pid::from_raw(id).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
    else {
        return;
    };
    if let Err(error) = pidfd_send_signal(&handle, Signal::KILL) {
        tracing::warn!("killing process {id}: {error}");
        return;
    }
    let deadline = Timespec { tv_sec: 5, tv_nsec: 0 };
    // Its ports and its address are free then. Without that, starting Envoy reports the cause.
    let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&deadline));
}
