//! Command line: parses arguments and runs a command.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the program.
pub fn main(
    _arguments: impl IntoIterator<Item = OsString>,
    _environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> ExitCode {
    ExitCode::FAILURE
}
