//! Arguments of `version`.

use clap::{Args, ValueEnum};

/// Arguments of `version`.
#[derive(Clone, Debug, Args)]
pub struct VersionArgs {
    /// Print the version alone
    #[arg(short, long)]
    pub short: bool,
    /// Format of the output [default: text]
    #[arg(short, long, value_name = "FORM", value_enum)]
    pub output: Option<VersionFormat>,
}

/// Output format of `version`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum VersionFormat {
    /// JSON
    Json,
    /// YAML
    Yaml,
}
