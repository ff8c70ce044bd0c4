//! Arguments of `version`.

use clap::{Args, ValueEnum};
use serde_json::json;

/// Arguments of `version`.
#[derive(Clone, Copy, Debug, Args)]
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
}

impl VersionArgs {
    /// Text of the version.
    pub fn text(self) -> String {
        match self.output {
            Some(VersionFormat::Json) => {
                let version = json!({
                    "version": program_version::title(),
                    "tag": program_version::NUMBER,
                    "gitRevision": program_version::COMMIT,
                });
                format!("{:#}", json!({ "clientVersion": version }))
            }
            None if self.short => program_version::NUMBER.to_owned(),
            None => format!("pilot-discovery version: {}", program_version::title()),
        }
    }
}
