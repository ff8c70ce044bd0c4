//! The command line, as injected containers and their lifecycle hooks write it.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use hyper::{Method, Uri};

/// The agent of Envoy: starts it, and answers probes for it and for the application
#[derive(Debug, Parser)]
#[command(name = "pilot-agent")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run Envoy, and answer on the status port until it ends
    Proxy(Proxy),
    /// Send a request to the agent or Envoy on this pod's loopback
    Request(Request),
    /// Wait until the proxy is ready
    Wait(Wait),
}

#[derive(Debug, Args)]
pub(crate) struct Proxy {
    pub(crate) role: Role,
    /// The DNS suffix of the pod's own Services
    #[arg(long)]
    pub(crate) domain: Option<String>,
    /// Envoy's log level
    #[arg(long = "proxyLogLevel", default_value = "warning")]
    pub(crate) log_level: String,
    /// Envoy's log levels by component
    #[arg(long = "proxyComponentLogLevel", default_value = "")]
    pub(crate) component_log_level: String,
    /// The agent's log level, by scope
    #[arg(long = "log_output_level", default_value = "default:info")]
    pub(crate) agent_log_level: AgentLogLevel,
}

/// Role of Envoy.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Role {
    /// Sidecar of an application, whose connections it captures
    Sidecar,
    /// Gateway, which captures no connections
    Router,
}

#[derive(Debug, Args)]
pub(crate) struct Request {
    /// The destination port: 15000 is Envoy's, the status port the agent's
    #[arg(long = "debug-port", default_value_t = 15000)]
    pub(crate) port: u16,
    pub(crate) method: Method,
    /// The path, with or without the slash at its beginning
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// URL that answers 200 when the proxy is ready
    #[arg(long, default_value = "http://localhost:15021/healthz/ready")]
    pub(crate) url: Uri,
    /// Maximum wait in seconds
    #[arg(long = "timeoutSeconds", default_value = "60", value_parser = seconds)]
    pub(crate) patience: Duration,
    /// Wait after an answer other than 200, in milliseconds
    #[arg(long = "periodMillis", default_value = "500", value_parser = milliseconds)]
    pub(crate) period: Duration,
    /// Timeout of an answer in milliseconds
    #[arg(long = "requestTimeoutMillis", default_value = "500", value_parser = milliseconds)]
    pub(crate) request_timeout: Duration,
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}

fn milliseconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_millis)
}

/// The level of Istio's scope `default`; this agent has no other scope.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct AgentLogLevel(pub(crate) tracing::level_filters::LevelFilter);

impl FromStr for AgentLogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        use tracing::level_filters::LevelFilter;
        let mut default = LevelFilter::INFO;
        for scope in text.split(',') {
            let (scope, level) = scope.split_once(':').unwrap_or(("default", scope));
            let level = match level {
                "none" => LevelFilter::OFF,
                "fatal" | "error" => LevelFilter::ERROR,
                "warn" => LevelFilter::WARN,
                "info" => LevelFilter::INFO,
                "debug" => LevelFilter::DEBUG,
                _ => {
                    return Err(format!(
                        "{level:?} is no level; levels are none, fatal, error, warn, info, debug"
                    ));
                }
            };
            if scope == "default" || scope == "all" {
                default = level;
            }
        }
        Ok(Self(default))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use tracing::level_filters::LevelFilter;

    use super::*;

    fn parse(line: &str) -> Result<Command, String> {
        let arguments = Arguments::try_parse_from(line.split(' '));
        arguments.map(|arguments| arguments.command).map_err(|error| error.to_string())
    }

    #[test]
    fn command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn injected_arguments_are_parsed() {
        let line = "pilot-agent proxy sidecar --domain shop.svc.cluster.local \
            --proxyLogLevel=warning --proxyComponentLogLevel=misc:error \
            --log_output_level=default:debug";
        let Ok(Command::Proxy(proxy)) = parse(line) else { panic!("{:?}", parse(line)) };
        assert_eq!(proxy.role, Role::Sidecar);
        assert_eq!(proxy.component_log_level, "misc:error");
        assert_eq!(proxy.agent_log_level, AgentLogLevel(LevelFilter::DEBUG));

        let drain = parse("pilot-agent request --debug-port=15020 POST drain");
        let Ok(Command::Request(request)) = drain else { panic!("{drain:?}") };
        assert_eq!((request.port, &*request.path), (15020, "drain"));

        let Ok(Command::Wait(wait)) = parse("pilot-agent wait") else { panic!("no wait") };
        assert_eq!(wait.patience, Duration::from_secs(60));
    }

    #[test]
    fn unknown_log_level_is_named() {
        let error = parse("pilot-agent proxy router --log_output_level=default:loud").unwrap_err();
        assert!(error.contains("\"loud\" is no level"), "{error}");
    }
}
