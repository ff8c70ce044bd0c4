//! Flags for the destination and the form of the result.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use crate::inputs::STANDARD;

/// Flags for the destination and the form of the result.
#[derive(Debug, Args)]
pub(super) struct OutputFlags {
    /// Output file; standard output by default
    #[arg(
        short,
        long,
        value_name = "FILE",
        value_parser = OsStringValueParser::new().map(Output::new)
    )]
    output: Option<Output>,
    /// Write each changed file back, and touch no other
    #[arg(long, conflicts_with_all = ["output", "check"])]
    in_place: bool,
    /// Write nothing, list the workloads to be changed on standard error, and exit with 3 if there
    /// are any
    #[arg(long, conflicts_with = "output")]
    check: bool,
}

/// Value of `--output`.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Output {
    File(PathBuf),
    StandardOutput,
}

/// Destination of the result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Destination<'a> {
    /// The exit code alone.
    Check,
    File(&'a Path),
    /// The input files.
    InPlace,
    StandardOutput,
}

impl OutputFlags {
    pub(super) fn destination(&self) -> Destination<'_> {
        match &self.output {
            _ if self.check => Destination::Check,
            _ if self.in_place => Destination::InPlace,
            Some(Output::File(path)) => Destination::File(path),
            Some(Output::StandardOutput) | None => Destination::StandardOutput,
        }
    }
}

impl Output {
    fn new(value: OsString) -> Self {
        if value == STANDARD { Self::StandardOutput } else { Self::File(value.into()) }
    }
}
