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
use clap::error::ErrorKind;
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
#[command(name = "pilot-agent", version = program_version::text(), args_override_self = true, after_help = EXIT_HELP)]
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
        let arguments: Vec<_> = arguments.into_iter().collect();
        if let Some(problem) = not_text(&arguments) {
            return Err(command.error(ErrorKind::InvalidUtf8, problem));
        }
        let (known, unknown) = split_unknown(&command, arguments);
        let matches = command.try_get_matches_from_mut(known)?;
        Self::from_arg_matches(&matches)
            .map(|arguments| (arguments, unknown))
            .map_err(|error| error.format(&mut command))
    }
}

/// Returns the problem of the first word that is not UTF-8. Words for another program stay as they
/// are.
fn not_text(arguments: &[OsString]) -> Option<String> {
    let commands = arguments.iter().skip(1).take(1).filter_map(|word| word.to_str());
    if commands.into_iter().any(|command| [ISTIO_IPTABLES, ENVOY_CHILD].contains(&command)) {
        return None;
    }
    let index = arguments.iter().skip(1).position(|word| word.to_str().is_none())? + 1;
    let word = arguments[index].to_string_lossy();
    let before = arguments[index - 1].to_string_lossy();
    let flag = [&word, &before].into_iter().find(|word| word.starts_with('-'));
    let flag = flag.map(|flag| flag.split('=').next().unwrap_or_default());
    let problem = "is not UTF-8 text; hint: encode the manifest that sets it as UTF-8";
    Some(match flag {
        Some(flag) => format!("the value of '{flag}' {problem}"),
        None => format!("argument {index} {problem}"),
    })
}

/// A command of the program.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run Envoy, and answer on the status port until it ends
    #[command(after_help = PROXY_EXIT_HELP)]
    Proxy(Box<ProxyArgs>),
    /// Send a request to the agent or to Envoy on this pod's loopback
    #[command(after_help = EXIT_HELP)]
    Request(RequestArgs),
    /// Wait until the proxy is ready
    #[command(after_help = EXIT_HELP)]
    Wait(WaitArgs),
    /// Print the version
    #[command(after_help = EXIT_HELP)]
    Version(VersionArgs),
    /// Run istio-init, which stands beside this program or in PATH
    #[command(name = ISTIO_IPTABLES, hide = true, disable_help_flag = true)]
    IstioIptables(IptablesArgs),
    /// Start Envoy so that it ends with the agent
    #[command(name = ENVOY_CHILD, hide = true, disable_help_flag = true)]
    EnvoyChild(EnvoyChildArgs),
}

const EXIT_HELP: &str = "Exit codes:\n  0  done\n  1  failed\n  2  invalid usage";

const PROXY_EXIT_HELP: &str = "Exit codes:\n  0  drained after SIGTERM or SIGINT, or ended by \
                               /quitquitquit\n  1  failed, also by an invalid variable, annotation or \
                               file, or ended by a signal before Envoy served\n  2  invalid command line";

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
    #[arg(long = "log_as_json", value_name = "true|false", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", hide_possible_values = true,
          global = true, value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    pub as_json: bool,
}

const ISTIO_IPTABLES: &str = "istio-iptables";
const ENVOY_CHILD: &str = "envoy-child";
