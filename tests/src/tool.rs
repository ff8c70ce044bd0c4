//! Programs that run to completion.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a program of the machine and returns its standard output. An exit code other than 0 is an
/// error that quotes the standard error.
pub(crate) fn run<A: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = A>,
) -> Result<String> {
    let mut command = Command::new(program);
    command.args(args);
    let output = output(&mut command, "")?;
    if !output.status.success() {
        bail!(
            "{program} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command with a text as its standard input, and returns its output.
pub(crate) fn output(command: &mut Command, input: &str) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {name}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input closes it; its exit code gives the reason.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output().with_context(|| format!("waiting for {name}"))
}
