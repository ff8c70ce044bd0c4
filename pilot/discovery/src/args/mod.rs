//! Command line of the program.

mod certificates;
mod discovery;
mod listen;
mod version;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, Parser, Subcommand};
use kube_access::LogFilter;

pub use certificates::CertificateArgs;
pub use discovery::{DiscoveryArgs, PlainAddresses, RegistryKind};
pub use listen::ListenAddress;
pub use version::VersionArgs;

/// The control plane: discovery for Envoy, certificates of workloads, debug pages
#[derive(Clone, Debug, Parser)]
#[command(name = "pilot-discovery", version = program_version::text(), args_override_self = true, after_help = EXIT_HELP)]
pub struct Arguments {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
    /// Flags of the log.
    #[command(flatten)]
    pub log: LogArgs,
}

/// A command of the program.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Serve the configuration of proxies until the program is terminated
    #[command(after_help = EXIT_HELP)]
    Discovery(Box<DiscoveryArgs>),
    /// Print the version
    #[command(after_help = EXIT_HELP)]
    Version(VersionArgs),
}

const EXIT_HELP: &str = "Exit codes:\n  0  done; discovery: ended by SIGTERM or SIGINT\n  1  \
                         failed\n  2  invalid usage or environment variable";

/// Flags of the log.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// Filter of the log on stderr: LEVEL, or TARGET=LEVEL of tracing, or SCOPE:LEVEL of Istio
    #[arg(long = "log", value_name = "FILTER", default_value = "info", global = true)]
    pub filter: LogFilter,
    /// Log as JSON
    #[arg(long = "log_as_json", value_name = "true|false", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", hide_possible_values = true,
          global = true, value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    pub as_json: bool,
}
