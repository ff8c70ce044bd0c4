//! Child processes of the harness.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::run_folder::RunFolder;
use crate::wait;

/// A running child in a process group of its own. The kernel kills it when the thread that started
/// it ends, so start it from the main thread.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    program: PathBuf,
    args: Vec<OsString>,
}

impl Process {
    /// Starts `program`; its output goes to `logs/NAME.log`.
    pub fn start<A: AsRef<OsStr>>(
        folder: &RunFolder,
        name: &str,
        program: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Self> {
        let log = folder.logs().join(format!("{name}.log"));
        let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let child = Self::spawn(name, program, &args, &log)?;
        let program = program.to_owned();
        let process = Self { name: name.to_owned(), child, log, program, args };
        process.record(folder)?;
        Ok(process)
    }

    /// Starts the killed process again with its arguments. Its log begins anew.
    pub fn start_again(&mut self, folder: &RunFolder) -> Result<()> {
        self.child = Self::spawn(&self.name, &self.program, &self.args, &self.log)?;
        self.record(folder)
    }

    fn spawn(name: &str, program: &Path, args: &[OsString], log: &Path) -> Result<Child> {
        let output = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        // setpriv sets the death signal, which would otherwise need code between fork and exec.
        Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(args)
            .env("PATH", SEARCH_PATH)
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("sharing the log file")?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {name}"))
    }

    /// Records the process for the case that this run is killed.
    fn record(&self, folder: &RunFolder) -> Result<()> {
        let name = &self.name;
        let record = Record::from_pid(self.child.id())
            .with_context(|| format!("reading the start time of {name}"))?;
        folder.write(&format!("{RECORDS}/{name}"), record.to_string())?;
        Ok(())
    }

    /// Waits like [`wait::until`], and fails at once if the process ends before. An error shows the
    /// tail of the log.
    pub fn wait_until<T>(&mut self, what: &str, mut probe: impl FnMut() -> Result<T>) -> Result<T> {
        let child = &mut self.child;
        let found = wait::until(what, || match child.try_wait() {
            Ok(None) => probe().map(Ok).map_err(|reason| format!("{reason:#}")),
            Ok(Some(status)) => Ok(Err(status)),
            Err(error) => Err(error.to_string()),
        });
        match found {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(status)) => bail!("{} ended ({status}){}", self.name, self.tail()),
            Err(error) => bail!("{error:#}{}", self.tail()),
        }
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the output so far, standard output and standard error together.
    pub fn said(&self) -> Result<String> {
        let log = fs::read(&self.log).with_context(|| format!("reading {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    /// True if the process is still running.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("sending a signal to {}", self.name))
    }

    /// Kills the process, and waits until it is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().with_context(|| format!("killing {}", self.name))?;
        self.child.wait().with_context(|| format!("waiting for {}", self.name))?;
        Ok(())
    }

    /// Terminates the process, and kills it after some seconds.
    pub fn stop(&mut self) -> Result<()> {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return Ok(());
        }
        self.signal(Signal::TERM)?;
        // A suspended process does not handle the signal.
        self.signal(Signal::CONT)?;
        let child = &mut self.child;
        let ended = wait::until_within("it ends", BEFORE_THE_KILL, || match child.try_wait() {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err("it still runs".to_owned()),
            Err(error) => Err(error.to_string()),
        });
        if ended.is_err() {
            self.kill()?;
        }
        Ok(())
    }

    fn tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
        format!("\nthe end of {}:\n{}", self.log.display(), tail.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error cannot be handled here; the kernel ends the child with this process.
        let _ = self.stop();
    }
}

/// Kills processes that a previous run recorded, if they still run.
pub(crate) fn kill_recorded(node: &Path) -> Result<()> {
    let Ok(records) = fs::read_dir(node.join(RECORDS)) else {
        return Ok(());
    };
    for entry in records {
        let path = entry.context("listing recorded processes")?.path();
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let Some(record) = Record::parse(&text) else {
            continue;
        };
        // The same process ID with another start time is another process.
        if Record::from_pid(record.pid).is_ok_and(|running| running == record) {
            kill(record.pid)?;
        }
    }
    Ok(())
}

/// Kills a process by its ID; a process that is gone already is no error.
pub(crate) fn kill(pid: u32) -> Result<()> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(());
    };
    match kill_process(pid, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context("killing a process of an earlier run"),
    }
}

/// Identity of a process, distinct from a later one with the same ID.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    pid: u32,
    started: u64,
}

impl Record {
    fn from_pid(pid: u32) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The second field, the program's name in parentheses, may contain spaces.
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let started = after_name.split_whitespace().nth(START_TIME_AFTER_NAME);
        let started = started.context("no start time")?.parse()?;
        Ok(Self { pid, started })
    }

    fn parse(text: &str) -> Option<Self> {
        let (pid, started) = text.trim().split_once(' ')?;
        Some(Self { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.pid, self.started)
    }
}

/// Field 22 of proc(5)'s `stat`, counted from the third.
const START_TIME_AFTER_NAME: usize = 19;
const RECORDS: &str = "processes";
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const LINES_SHOWN: usize = 40;
const BEFORE_THE_KILL: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_round_trips_through_its_file() {
        let record = Record::from_pid(std::process::id()).unwrap();
        assert_eq!(Record::parse(&record.to_string()), Some(record));
    }
}
