//! One measured run of a program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Time in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// From start to exit.
    pub(crate) wall: f64,
    /// CPU time of this process, user and system.
    pub(crate) cpu: f64,
}

impl Cost {
    /// Upper limit.
    pub(crate) const MOST: Self = Self { wall: f64::MAX, cpu: f64::MAX };

    /// Returns the smaller of each.
    pub(crate) fn least(self, other: Self) -> Self {
        Self { wall: self.wall.min(other.wall), cpu: self.cpu.min(other.cpu) }
    }
}

/// Runs a program, which must succeed.
pub(crate) fn timed(program: &Path, arguments: &[&str]) -> Result<Cost> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn().context("starting the program")?;
    let pid = Pid::from_child(&child);
    // The process has ended but is not reaped, so its times can be read.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let wall = start.elapsed().as_secs_f64() * 1_000.0;
    let times = fs::read_to_string(format!("/proc/{}/schedstat", child.id()));
    ensure!(child.wait()?.success(), "{} {arguments:?} failed", program.display());
    let nanoseconds: f64 = times?.split(' ').next().unwrap_or_default().parse()?;
    Ok(Cost { wall, cpu: nanoseconds / 1_000_000.0 })
}

/// Counts the instructions executed in user space.
pub(crate) fn instructions(program: &Path, arguments: &[&str]) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let output = valgrind.arg(program).args(arguments).output().context("starting valgrind")?;
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{report}");
    let count = report.lines().find_map(|line| line.split_once("Collected : "));
    Ok(count.context("valgrind tells no count")?.1.trim().parse()?)
}

/// Returns the largest resident set in KiB of the program and its children.
pub(crate) fn peak_memory(program: &Path, arguments: &[&str]) -> Result<u64> {
    // A process starts with the peak of its parent, so the parent must be small.
    let mut time = Command::new("busybox");
    time.args(["time", "-f", "%M"]).arg(program).args(arguments);
    let output = time.stdout(Stdio::null()).output().context("starting busybox")?;
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{report}");
    let size: u64 = report.lines().last().unwrap_or_default().parse().context(report.clone())?;
    // busybox multiplies by the page size.
    Ok(size * 1_024 / u64::try_from(rustix::param::page_size())?)
}

/// Counts the other programs that it runs: each is replaced by a script that leaves a mark.
pub(crate) fn other_programs(program: &Path, arguments: &[&str]) -> Result<usize> {
    let folder = tempfile::tempdir()?;
    let marks = folder.path().join("marks");
    fs::write(&marks, "")?;
    for entry in fs::read_dir("/usr/sbin")? {
        let real = entry?.path();
        let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.contains("tables") || name == "nft" || name == "ip" {
            let shim = folder.path().join(&name);
            let text = format!(
                "#!/bin/sh\necho {name} >>{}\nexec {} \"$@\"\n",
                marks.display(),
                real.display()
            );
            fs::write(&shim, text)?;
            fs::set_permissions(&shim, fs::Permissions::from_mode(0o755))?;
        }
    }
    let output = Command::new(program).args(arguments).env("PATH", folder.path()).output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(fs::read_to_string(&marks)?.lines().count())
}
