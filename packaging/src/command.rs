//! Commands of cargo and Debian.

use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};

/// Runs a command in a folder, and returns its standard output.
pub(crate) fn run(program: &str, args: &[&str], folder: &Path) -> Result<String> {
    let failed = |message: String| Error::Command {
        command: format!("{program} {}", args.join(" ")),
        message,
    };
    let output = Command::new(program).args(args).current_dir(folder).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
