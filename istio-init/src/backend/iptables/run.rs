//! Runs iptables programs with a time limit.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::iptables::IPTables;
use rustix::fs::{MemfdFlags, memfd_create};

use super::error::{IptablesError, not_listed, refusal};
use super::listing::{Change, Listing};
use crate::netlink::privileges::Privileges;
use crate::netlink::timeout::{BETWEEN_LOOKS, TIMEOUT, begin, wait};
use crate::plan::Table;
use crate::render::iptables::table_name;
use crate::types::family::Family;
use crate::types::iptables_variant::{IptablesBinaries, Variant};

/// A listing in progress.
pub(super) struct Running {
    binaries: IptablesBinaries,
    family: Family,
    table: Table,
    lines: JoinHandle<Option<Vec<String>>>,
}

/// Starts to list an existing table.
pub(super) fn start(
    binaries: IptablesBinaries,
    family: Family,
    table: Table,
) -> Result<Running, IptablesError> {
    let program = binaries.list_program(family);
    let name = table_name(table);
    // Skips the library's version checks; it waits for the lock without a limit.
    let iptables = IPTables { cmd: program, has_check: true, has_wait: true, is_numeric: false };
    let list = move || iptables.list_table(name).ok();
    let lines = begin(list).map_err(|source| IptablesError::Start { program, source })?;
    Ok(Running { binaries, family, table, lines })
}

impl Running {
    /// Waits for the listing.
    pub(super) fn wait(self) -> Result<Listing, IptablesError> {
        let Self { binaries, family, table, lines } = self;
        let program = binaries.list_program(family);
        let lines = wait(lines).ok_or(IptablesError::Stuck { program })?.unwrap_or_default();
        // A failed program prints nothing, and the library drops its error. Each table has chains.
        if !lines.iter().any(|line| line.starts_with("-P ")) {
            return Err(listing_error(binaries, family, table));
        }
        Ok(Listing { table, lines })
    }
}

/// Lists a table again for the program's own error.
fn listing_error(binaries: IptablesBinaries, family: Family, table: Table) -> IptablesError {
    let program = binaries.list_program(family);
    let mut command = Command::new(program);
    command.args(["-t", table_name(table), "-S"]).stdin(Stdio::null());
    match finished(binaries.variant, program, command) {
        Err(error) => error,
        Ok((status, stderr)) => not_listed(program, table, status, &stderr),
    }
}

/// Runs `iptables-restore` with a change.
///
/// Input and output are files in memory, so no thread is needed: at a process limit none could be
/// created.
pub(super) fn restore(
    binaries: IptablesBinaries,
    family: Family,
    change: &Change,
) -> Result<(), IptablesError> {
    let program = binaries.restore_program(family);
    let mut command = Command::new(program);
    let input = file_of(&change.text);
    command
        .arg("--noflush")
        .stdin(input.map_err(|source| IptablesError::Start { program, source })?);
    let (status, stderr) = finished(binaries.variant, program, command)?;
    if status.success() {
        return Ok(());
    }
    Err(refusal(program, change, status, &stderr, Privileges::current()))
}

/// Runs a program to its end. Returns its status and its error messages.
fn finished(
    variant: Variant,
    program: &'static str,
    mut command: Command,
) -> Result<(ExitStatus, String), IptablesError> {
    if variant == Variant::Legacy {
        command.arg(format!("--wait={}", LOCK_TIMEOUT.as_secs()));
    }
    let start = |source| IptablesError::Start { program, source };
    let mut errors = file_of("").map_err(start)?;
    command.env("LC_ALL", "C").stdout(Stdio::null());
    command.stderr(errors.try_clone().map_err(start)?);
    let mut child = command.spawn().map_err(start)?;
    let Some(status) = ended(&mut child).map_err(start)? else {
        // The program may have ended meanwhile.
        let _ = child.kill();
        return Err(IptablesError::Stuck { program });
    };
    let mut stderr = Vec::new();
    errors.rewind().and_then(|()| errors.read_to_end(&mut stderr)).map_err(start)?;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    if status.code() == Some(NOT_LOADED) {
        return Err(IptablesError::Broken { program, reason: stderr.trim().to_owned() });
    }
    Ok((status, stderr))
}

/// Creates an in-memory file with the text.
fn file_of(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("iptables", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// Waits for a program until the time limit.
fn ended(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= deadline {
            return Ok(status);
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// The exit code when a program's libraries or its interpreter are missing.
const NOT_LOADED: i32 = 127;
/// Time that a legacy program waits for the lock of iptables, as in Istio; shorter than
/// [`TIMEOUT`].
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
