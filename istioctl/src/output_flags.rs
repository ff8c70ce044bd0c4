//! Flags for the destination and the form of the result.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use documents::suggest;

use crate::Failure;
use crate::inputs::STANDARD;

/// Flags for the destination and the form of the result.
#[derive(Debug, Args)]
pub(super) struct OutputFlags {
    /// The form of standard output: `yaml`, `json`, `patch` or `diff`; any other value is the
    /// output file [default: each document keeps its form]
    #[arg(
        short,
        long,
        value_name = "FORM|FILE",
        value_parser = OsStringValueParser::new().try_map(Output::new)
    )]
    output: Option<Output>,
    /// Write each changed file back, and touch no other
    #[arg(long, conflicts_with_all = ["output", "check"])]
    in_place: bool,
    /// Write nothing, list the workloads to be changed on standard error, and exit with 3 if there
    /// are any; with `-o json`, describe all objects on standard output
    #[arg(long)]
    check: bool,
    /// Show the result for each object, with the reason, as a table or with `-o json` as JSON
    #[arg(long, conflicts_with_all = ["check", "in_place"])]
    explain: bool,
}

/// Value of `--output`.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Output {
    File(PathBuf),
    Form(TextForm),
}

/// Form of the result on standard output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TextForm {
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
    /// The exit code, and the results for all objects if JSON is wanted.
    Check {
        /// True for JSON.
        json: bool,
    },
    /// The results for all objects.
    Explanation {
        /// True for JSON.
        json: bool,
    },
    File(&'a Path),
    /// The input files.
    InPlace,
    StandardOutput(TextForm),
}

impl OutputFlags {
    /// Returns the destination, or a usage error.
    pub(super) fn destination(&self) -> Result<Destination<'_>, Failure> {
        if self.check || self.explain {
            let json = match &self.output {
                None | Some(Output::Form(TextForm::Kept)) => false,
                Some(Output::Form(TextForm::Json)) => true,
                Some(_) if self.check => return Err(Failure::Usage(NO_TEXT.to_owned())),
                Some(_) => return Err(Failure::Usage(NO_TABLE.to_owned())),
            };
            return Ok(if self.check {
                Destination::Check { json }
            } else {
                Destination::Explanation { json }
            });
        }
        Ok(match &self.output {
            None if self.in_place => Destination::InPlace,
            Some(Output::File(path)) => Destination::File(path),
            Some(Output::Form(form)) => Destination::StandardOutput(*form),
            None => Destination::StandardOutput(TextForm::Kept),
        })
    }
}

impl Output {
    fn new(value: OsString) -> Result<Self, String> {
        Ok(match value.to_str() {
            Some("") => return Err("expected yaml, json, patch, diff or a file".to_owned()),
            Some("diff") => Self::Form(TextForm::Diff),
            Some("json") => Self::Form(TextForm::Json),
            Some("patch") => Self::Form(TextForm::Patch),
            Some("yaml") => Self::Form(TextForm::Yaml),
            Some(STANDARD) => Self::Form(TextForm::Kept),
            text => {
                let meant = text.and_then(|text| suggest::among(text, &FORMS));
                if let Some(form) = meant.filter(|_| !Path::new(&value).exists()) {
                    let name = value.display();
                    return Err(format!("did you mean {form}? For a new file, write ./{name}"));
                }
                Self::File(value.into())
            }
        })
    }
}

const FORMS: [&str; 4] = ["yaml", "json", "patch", "diff"];

const NO_TABLE: &str = "error: --explain prints a table; hint: the one other form is --output json";

const NO_TEXT: &str =
    "error: --check writes no text; hint: the one form of its result is --output json";
