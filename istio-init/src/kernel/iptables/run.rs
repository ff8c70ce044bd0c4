//! Runs the programs of iptables, and never longer than a deadline.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use ::iptables::IPTables;
use rustix::process::{Pid, Signal, kill_process};

use super::IptablesError;
use super::listing::{Change, Listing};
use super::refusal::refusal;
use super::tools::{Tools, Variant};
use crate::family::Family;
use crate::kernel::patience::{PATIENCE, begin};
use crate::kernel::privileges::Privileges;
use crate::plan::Table;
use crate::render::iptables::table_name;

/// A table that is being listed.
pub(super) struct Running {
    program: &'static str,
    table: Table,
    lines: Receiver<Result<Vec<String>, String>>,
}

/// Begins to list a table that exists.
pub(super) fn start(tools: Tools, family: Family, table: Table) -> Running {
    let program = tools.lists(family);
    let name = table_name(table);
    // Whether it lists is all that is asked of it; and it waits for the lock without an end.
    let iptables = IPTables { cmd: program, has_check: true, has_wait: true, is_numeric: false };
    let lines = begin(move || iptables.list_table(name).map_err(|error| error.to_string()));
    Running { program, table, lines }
}

impl Running {
    /// What it lists.
    pub(super) fn wait(self) -> Result<Listing, IptablesError> {
        let Self { program, table, lines } = self;
        let fault =
            |reason: String| IptablesError::List { program, table: table_name(table), reason };
        let listed = lines.recv_timeout(PATIENCE).ok();
        let lines = listed.ok_or(IptablesError::Stuck { program })?.map_err(fault)?;
        // A program that fails prints nothing, and the library does not tell. Each table has
        // chains.
        if !lines.iter().any(|line| line.starts_with("-P ")) {
            return Err(fault("it lists no chain".to_owned()));
        }
        Ok(Listing { table, lines })
    }
}

/// Has the kernel carry out a change.
pub(super) fn restore(tools: Tools, family: Family, change: &Change) -> Result<(), IptablesError> {
    let program = tools.restores(family);
    let mut command = Command::new(program);
    command.arg("--noflush").env("LC_ALL", "C");
    if tools.variant == Variant::Legacy {
        command.arg(format!("--wait={}", LOCK_PATIENCE.as_secs()));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let start = |source| IptablesError::Start { program, source };
    let mut child = command.spawn().map_err(start)?;
    let process = Pid::from_child(&child);
    let text = change.text.clone();
    let ended = begin(move || -> std::io::Result<Output> {
        if let Some(mut stdin) = child.stdin.take() {
            // A program that ends before it has read all says why.
            let _ = stdin.write_all(text.as_bytes());
        }
        child.wait_with_output()
    });
    let Ok(ended) = ended.recv_timeout(PATIENCE) else {
        // It may have ended just now; then there is nothing to kill.
        let _ = kill_process(process, Signal::KILL);
        return Err(IptablesError::Stuck { program });
    };
    let output = ended.map_err(start)?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(NOT_LOADED) {
        return Err(IptablesError::Broken { program, reason: stderr.trim().to_owned() });
    }
    let privileges = Privileges::of_this_process();
    Err(refusal(program, change, output.status, &stderr, privileges))
}

/// The exit code when a program's libraries or its interpreter are missing.
const NOT_LOADED: i32 = 127;
/// How long a legacy program waits for the lock that others hold; Istio's wait, and shorter than
/// [`PATIENCE`].
const LOCK_PATIENCE: Duration = Duration::from_secs(30);
