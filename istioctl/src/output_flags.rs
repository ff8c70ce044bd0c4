//! Flags for the destination and the form of the result.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use crate::inputs::STANDARD;

/// Flags for the destination and the form of the result.
#[derive(Debug, Args)]
pub(super) struct OutputFlags {
    /// The form of standard output: `yaml`, `json`, `patch` or `diff`; any other value is the
    /// output file. By default, each document keeps its form
    #[arg(
        short,
        long,
        value_name = "FORM|FILE",
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
    Form(Form),
}

/// Form of the result on standard output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// A unified diff for each file.
    Diff,
    /// One JSON value per document.
    Json,
    /// Each document as it was given.
    Kept,
    /// One line of JSON with a JSON patch for each workload.
    Patch,
    /// Documents in JSON become YAML.
    Yaml,
}

/// Destination of the result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Destination<'a> {
    /// The exit code alone.
    Check,
    File(&'a Path),
    /// The input files.
    InPlace,
    StandardOutput(Form),
}

impl OutputFlags {
    /// Returns the destination.
    pub(super) fn destination(&self) -> Destination<'_> {
        match &self.output {
            None if self.check => Destination::Check,
            None if self.in_place => Destination::InPlace,
            Some(Output::File(path)) => Destination::File(path),
            Some(Output::Form(form)) => Destination::StandardOutput(*form),
            None => Destination::StandardOutput(Form::Kept),
        }
    }
}

impl Output {
    fn new(value: OsString) -> Self {
        match value.to_str() {
            Some("diff") => Self::Form(Form::Diff),
            Some("json") => Self::Form(Form::Json),
            Some("patch") => Self::Form(Form::Patch),
            Some("yaml") => Self::Form(Form::Yaml),
            Some(STANDARD) => Self::Form(Form::Kept),
            _ => Self::File(value.into()),
        }
    }
}
