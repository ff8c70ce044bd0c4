//! Runs iptables programs with a time limit.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use ::iptables::IPTables;
use rustix::fs::{MemfdFlags, memfd_create};

use super::error::IptablesError;
use super::error::refusal;
use super::listing::{Change, Listing};
use crate::netlink::privileges::Privileges;
use crate::netlink::timeout::{TIMEOUT, begin};
use crate::plan::Table;
use crate::render::iptables::table_name;
use crate::types::family::Family;
use crate::types::iptables_variant::{IptablesBinaries, Variant};

/// A listing in progress.
pub(super) struct Running {
    program: &'static str,
    table: Table,
    lines: Receiver<Result<Vec<String>, Failed>>,
}

/// A listing that failed.
enum Failed {
    /// The program cannot be started.
    Start(io::Error),
    /// Other error.
    Other(String),
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
    let list = move || {
        iptables.list_table(name).map_err(|error| match error.downcast::<io::Error>() {
            Ok(error) => Failed::Start(*error),
            Err(error) => Failed::Other(error.to_string()),
        })
    };
    let lines = begin(list).map_err(|source| IptablesError::Start { program, source })?;
    Ok(Running { program, table, lines })
}

impl Running {
    /// Waits for the listing.
    pub(super) fn wait(self) -> Result<Listing, IptablesError> {
        let Self { program, table, lines } = self;
        let error =
            |reason: String| IptablesError::List { program, table: table_name(table), reason };
        let listed = lines.recv_timeout(TIMEOUT).ok();
        let lines =
            listed.ok_or(IptablesError::Stuck { program })?.map_err(|failed| match failed {
                Failed::Start(source) => IptablesError::Start { program, source },
                Failed::Other(reason) => error(reason),
            })?;
        // A failed program prints nothing, and the library does not report it. Each table has
        // chains.
        if !lines.iter().any(|line| line.starts_with("-P ")) {
            return Err(error("it lists no chain".to_owned()));
        }
        Ok(Listing { table, lines })
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
    command.arg("--noflush").env("LC_ALL", "C");
    if binaries.variant == Variant::Legacy {
        command.arg(format!("--wait={}", LOCK_TIMEOUT.as_secs()));
    }
    let start = |source| IptablesError::Start { program, source };
    let mut errors = file_of("").map_err(start)?;
    command.stdin(file_of(&change.text).map_err(start)?).stdout(Stdio::null());
    command.stderr(errors.try_clone().map_err(start)?);
    let mut child = command.spawn().map_err(start)?;
    let Some(status) = ended(&mut child).map_err(start)? else {
        // The program may have ended meanwhile.
        let _ = child.kill();
        return Err(IptablesError::Stuck { program });
    };
    if status.success() {
        return Ok(());
    }
    let mut stderr = Vec::new();
    errors.rewind().and_then(|()| errors.read_to_end(&mut stderr)).map_err(start)?;
    let stderr = String::from_utf8_lossy(&stderr);
    if status.code() == Some(NOT_LOADED) {
        return Err(IptablesError::Broken { program, reason: stderr.trim().to_owned() });
    }
    let privileges = Privileges::current();
    Err(refusal(program, change, status, &stderr, privileges))
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
/// Shorter than a run of such a program.
const BETWEEN_LOOKS: Duration = Duration::from_micros(500);
