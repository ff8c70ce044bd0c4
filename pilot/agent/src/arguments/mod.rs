//! Command line of the program.

mod absent;
mod classic;
mod hidden;
mod proxy;
mod request;
#[cfg(test)]
mod tests;
mod unknown_flags;
mod version;
mod wait;

use std::ffi::OsString;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

pub use absent::AbsentArgs;
pub use classic::ClassicArgs;
pub use hidden::{EnvoyChildArgs, IptablesArgs};
pub(crate) use proxy::{MESH_CONFIG, MOST_THREADS};
pub use proxy::{ProxyArgs, RoleArg};
pub use request::RequestArgs;
use unknown_flags::split_unknown;
pub use version::{VersionArgs, VersionFormat};
pub use wait::WaitArgs;

use crate::log::Levels;

/// The agent beside Envoy: bootstrap, supervision, status port, xDS relay, certificates, DNS
#[derive(Clone, Debug, Parser)]
#[command(name = "pilot-agent", args_override_self = true)]
pub struct Arguments {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
    /// Flags of the log.
    #[command(flatten)]
    pub log: LogArgs,
}

impl Arguments {
    /// Parses a command line, program name included. Unknown flags of `proxy` are returned instead
    /// of rejected, since old templates pass flags that no longer exist.
    pub fn parse_lenient(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<(Self, Vec<String>), clap::Error> {
        let mut command = Self::command();
        let (known, unknown) = split_unknown(&command, arguments.into_iter().collect());
        let matches = command.try_get_matches_from_mut(known)?;
        Self::from_arg_matches(&matches)
            .map(|arguments| (arguments, unknown))
            .map_err(|error| error.format(&mut command))
    }
}

/// A command of the program.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run Envoy, and answer on the status port until it ends
    Proxy(Box<ProxyArgs>),
    /// Send a request to the agent or to Envoy on this pod's loopback
    Request(RequestArgs),
    /// Wait until the proxy is ready
    Wait(WaitArgs),
    /// Print the version
    Version(VersionArgs),
    /// Run istio-init, which stands beside this program or in PATH
    #[command(name = "istio-iptables", hide = true, disable_help_flag = true)]
    IstioIptables(IptablesArgs),
    /// Start Envoy so that it ends with the agent
    #[command(hide = true, disable_help_flag = true)]
    EnvoyChild(EnvoyChildArgs),
}

/// Flags of the log.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// Levels by scope, as Istio writes them: none, fatal, error, warn, info, debug
    #[arg(
        long = "log_output_level",
        value_name = "[SCOPE:]LEVEL,...",
        default_value = "default:info",
        global = true
    )]
    pub levels: Levels,
    /// Log as JSON
    #[arg(long = "log_as_json", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", global = true,
          value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    pub as_json: bool,
}
