//! Arguments of `version`.

use clap::Args;

/// Arguments of `version`.
#[derive(Clone, Copy, Debug, Args)]
pub struct VersionArgs {
    /// Print the version alone
    #[arg(short, long)]
    pub short: bool,
}

impl VersionArgs {
    /// Text of the version.
    pub fn text(self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        if self.short {
            return version.to_owned();
        }
        format!("pilot-discovery version: Outrigger {version}")
    }
}
