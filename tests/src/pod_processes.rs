//! Processes in the containers of a pod, as the machine sees them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::namespace::name_of;
use crate::{process, wait};

/// The time from a signal until others had learned that the process was gone, in milliseconds since
/// 1970.
#[derive(Clone, Copy, Debug)]
pub struct Killed {
    began: u64,
    ended: u64,
}

impl Killed {
    /// True if something from `began` to `ended` was going on then.
    pub fn overlaps(&self, began: u64, ended: u64) -> bool {
        began <= self.ended && ended >= self.began
    }
}

/// Kills the program of a pod without a warning, and waits until its process is gone, and its
/// children, which the kernel kills with it: an Envoy ends somewhat later than its agent.
pub fn kill(pod: &Value, program: &str) -> Result<Killed> {
    let pid = only_process(pod, program)?;
    let family: Vec<u32> = children(pid)?.into_iter().chain([pid]).collect();
    let began = now()?;
    process::kill(pid)?;
    wait::until(&format!("{program} of {} is gone", name_of(pod)), || {
        for pid in &family {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = state.rsplit_once(") ").map_or("", |(_, rest)| rest);
            ensure!(state.is_empty() || state.starts_with(['Z', 'X']), "{pid}: {state}");
            // The first thread may be gone while others still have the connections.
            let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
            ensure!(threads <= 1, "{pid}: {threads} threads");
        }
        Ok(())
    })?;
    Ok(Killed { began, ended: now()? + LEARNED })
}

/// Kills the processes of a pod that are in none of its containers: those that hold its namespaces.
pub fn kill_sandbox(pod: &Value) -> Result<()> {
    let statuses = ["initContainerStatuses", "containerStatuses"];
    let statuses = statuses.iter().filter_map(|list| pod["status"][list].as_array()).flatten();
    let containers: Vec<_> = statuses
        .filter_map(|status| status["containerID"].as_str()?.split_once("://"))
        .map(|(_, id)| id)
        .collect();
    let sandbox = processes(pod, |_, cgroups| !containers.iter().any(|id| cgroups.contains(id)))?;
    ensure!(!sandbox.is_empty(), "{} has no sandbox", name_of(pod));
    sandbox.into_iter().try_for_each(process::kill)
}

/// Returns the processes that the threads of a process started.
fn children(pid: u32) -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let text = fs::read_to_string(thread.path().join("children"))?;
        children.extend(text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    }
    Ok(children)
}

fn only_process(pod: &Value, program: &str) -> Result<u32> {
    let found = processes(pod, |process, _| {
        let executable = fs::read_link(process.join("exe")).unwrap_or_default();
        executable.file_name().is_some_and(|name| name == program)
    })?;
    match found[..] {
        [pid] => Ok(pid),
        _ => bail!("{} has {} processes of {program}", name_of(pod), found.len()),
    }
}

/// Returns the processes of a pod for which this holds, by their folders and cgroups.
fn processes(pod: &Value, is_wanted: impl Fn(&Path, &str) -> bool) -> Result<Vec<u32>> {
    let uid = pod["metadata"]["uid"].as_str().context("the pod has no uid")?;
    let is_wanted = |process: &PathBuf| {
        let cgroups = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
        cgroups.contains(uid) && is_wanted(process, &cgroups)
    };
    let processes = fs::read_dir("/proc")?.flatten().map(|entry| entry.path());
    let wanted = processes.filter(is_wanted);
    Ok(wanted.filter_map(|process| process.file_name()?.to_str()?.parse().ok()).collect())
}

fn now() -> Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

/// Milliseconds until the other end of a connection has handled its end. On a busy machine, it sends
/// requests until then.
const LEARNED: u64 = 500;
