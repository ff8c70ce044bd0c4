//! Command line of the program.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{BoolishValueParser, NonEmptyStringValueParser};
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use http::{Method, Uri};
use mesh::proxy_config_rules::is_address;

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

/// Arguments of `proxy`.
#[derive(Clone, Debug, Args)]
pub struct ProxyArgs {
    /// Role of Envoy
    #[arg(value_enum, default_value = "sidecar")]
    pub role: RoleArg,
    /// DNS suffix of the pod's own Services
    /// [default: NAMESPACE.svc.cluster.local]
    #[arg(long)]
    pub domain: Option<String>,
    /// File with the mesh configuration; gateways mount it
    #[arg(long = "meshConfig", value_name = "FILE", default_value = "./etc/istio/config/mesh")]
    pub mesh_config: PathBuf,
    /// Envoy's log level
    #[arg(
        long = "proxyLogLevel",
        value_name = "LEVEL",
        default_value = "warning",
        value_parser = LOG_LEVELS
    )]
    pub proxy_log_level: String,
    /// Envoy's log levels by component
    #[arg(
        long = "proxyComponentLogLevel",
        value_name = "COMPONENT:LEVEL,...",
        default_value = "misc:error",
        value_parser = component_levels
    )]
    pub proxy_component_log_level: String,
    /// File that Envoy appends outlier detection events to
    #[arg(long = "outlierLogPath", value_name = "FILE")]
    pub outlier_log_path: Option<String>,
    /// Number of Envoy's worker threads if neither `ProxyConfig` nor the CPU limit sets one; 0 for
    /// one per CPU
    #[arg(long, value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_THREADS)))]
    pub concurrency: Option<u32>,
    /// Apply a changed bootstrap by a hot restart of Envoy [default: that of
    /// `OUTRIGGER_HOT_RESTART`]
    #[arg(
        long = "hotRestart",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = BoolishValueParser::new()
    )]
    pub hot_restart: Option<bool>,
    /// Drain and exit where a changed bootstrap cannot be applied by a hot restart
    /// [default: that of `OUTRIGGER_EXIT_ON_BOOTSTRAP_CHANGE`]
    #[arg(long = "exitOnBootstrapChange", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub exit_on_bootstrap_change: Option<bool>,
    /// Flags of 2017.
    #[command(flatten)]
    pub classic: ClassicArgs,
    /// Flags whose function does not exist.
    #[command(flatten)]
    pub absent: AbsentArgs,
}

/// Flags of 2017. Most are fields of `ProxyConfig` today, which take precedence.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Flags of 2017")]
pub struct ClassicArgs {
    /// Address of the pod, unless `INSTANCE_IP` is set
    #[arg(long)]
    pub ip: Option<String>,
    /// `POD.NAMESPACE`, unless `POD_NAME` and `POD_NAMESPACE` are set
    #[arg(long)]
    pub id: Option<String>,
    /// `serviceCluster` of `ProxyConfig`
    #[arg(
        long = "serviceCluster",
        value_name = "NAME",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub service_cluster: Option<String>,
    /// `configPath` of `ProxyConfig`
    #[arg(long = "configPath", value_name = "FOLDER")]
    pub config_path: Option<String>,
    /// `binaryPath` of `ProxyConfig`
    #[arg(long = "binaryPath", value_name = "FILE")]
    pub binary_path: Option<String>,
    /// Zone of the proxy, unless the label `istio-locality` names one
    #[arg(long = "availabilityZone", value_name = "ZONE")]
    pub availability_zone: Option<String>,
    /// `drainDuration` of `ProxyConfig`
    #[arg(long = "drainDuration", value_name = "DURATION", value_parser = go_duration::positive)]
    pub drain_duration: Option<Duration>,
    /// Life of the old Envoy after a hot restart, longer than the drain duration
    /// [default: the drain duration and 5s]
    #[arg(
        long = "parentShutdownDuration",
        value_name = "DURATION",
        value_parser = go_duration::positive
    )]
    pub parent_shutdown_duration: Option<Duration>,
    /// `discoveryAddress` of `ProxyConfig`
    #[arg(long = "discoveryAddress", value_name = "HOST:PORT", value_parser = address)]
    pub discovery_address: Option<String>,
    /// `zipkinAddress` of `ProxyConfig`
    #[arg(long = "zipkinAddress", value_name = "HOST:PORT", value_parser = address_or_none)]
    pub zipkin_address: Option<String>,
    /// Connect timeout of the static clusters
    #[arg(long = "connectTimeout", value_name = "DURATION", value_parser = go_duration::positive)]
    pub connect_timeout: Option<Duration>,
    /// `statsdUdpAddress` of `ProxyConfig`
    #[arg(long = "statsdUdpAddress", value_name = "HOST:PORT")]
    pub statsd_udp_address: Option<String>,
    /// `proxyAdminPort` of `ProxyConfig`
    #[arg(
        long = "proxyAdminPort",
        value_name = "PORT",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub proxy_admin_port: Option<u16>,
    /// `controlPlaneAuthPolicy` of `ProxyConfig`: NONE or `MUTUAL_TLS`
    #[arg(long = "controlPlaneAuthPolicy", value_name = "POLICY")]
    pub control_plane_auth_policy: Option<String>,
}

/// Flags of Istio whose function does not exist here. Each is rejected or causes a warning; see
/// [`AbsentArgs::rejected`] and [`AbsentArgs::warnings`].
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Flags without a function")]
pub struct AbsentArgs {
    /// Rejected: the bootstrap is no template
    #[arg(long = "templateFile", value_name = "FILE")]
    pub template_file: Option<String>,
    /// Rejected: the bootstrap is generated
    #[arg(long = "customConfigFile", value_name = "FILE")]
    pub custom_config_file: Option<String>,
    /// Warning: there is no security token service; 0 is Istio's default
    #[arg(long = "stsPort", value_name = "PORT")]
    pub sts_port: Option<String>,
    /// Warning: there is no security token service
    #[arg(long = "tokenManagerPlugin", value_name = "NAME")]
    pub token_manager_plugin: Option<String>,
    /// Warning: the program has no Go profiles
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub profiling: Option<String>,
    /// Warning unless it is Kubernetes: the agent asks no registry
    #[arg(long = "serviceregistry", value_name = "NAME")]
    pub service_registry: Option<String>,
    /// Warning: configuration is streamed, not polled
    #[arg(long = "discoveryRefreshDelay", value_name = "DURATION")]
    pub discovery_refresh_delay: Option<String>,
}

impl AbsentArgs {
    /// Returns the reason for rejecting the command line, with a hint.
    pub fn rejected(&self) -> Option<String> {
        let hint = "put your fields into the ConfigMap that the annotation \
                    sidecar.istio.io/bootstrapOverride names; Envoy merges them over the bootstrap";
        if let Some(file) = &self.template_file {
            return Some(format!(
                "--templateFile {file}: templates of the bootstrap are not supported; hint: {hint}"
            ));
        }
        self.custom_config_file.as_ref().map(|file| {
            format!("--customConfigFile {file}: the bootstrap is always generated; hint: {hint}")
        })
    }

    /// Returns a warning for each flag that is set and has no effect.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(port) =
            self.sts_port.as_ref().filter(|port| !["", "0"].contains(&port.as_str()))
        {
            warnings.push(format!(
                "--stsPort {port} has no effect: the agent has no security token service, so \
                 nothing listens on this port; hint: remove global.sts.servicePort from the values"
            ));
        }
        if let Some(name) = &self.token_manager_plugin {
            warnings.push(format!(
                "--tokenManagerPlugin {name} has no effect: the agent has no security token service"
            ));
        }
        if let Some(value) = self.profiling.as_ref().filter(|value| *value != "false") {
            warnings.push(format!(
                "--profiling={value} has no effect: the program has no Go profiles; hint: use perf"
            ));
        }
        if let Some(name) = self.service_registry.as_ref().filter(|name| *name != "Kubernetes") {
            warnings.push(format!(
                "--serviceregistry {name} has no effect: the control plane reads the registries"
            ));
        }
        if let Some(delay) = &self.discovery_refresh_delay {
            warnings.push(format!(
                "--discoveryRefreshDelay {delay} has no effect: configuration is streamed"
            ));
        }
        warnings
    }
}

/// Role of Envoy.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum RoleArg {
    /// Sidecar of an application, whose connections it captures
    Sidecar,
    /// Gateway, which captures no connections
    Router,
}

/// Arguments of `request`.
#[derive(Clone, Debug, Args)]
pub struct RequestArgs {
    /// Destination port: 15000 is Envoy's admin interface; 15004, 15020 and 15021 are the agent's
    #[arg(long = "debug-port", value_name = "PORT", default_value_t = 15000,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Method, such as GET or POST
    #[arg(value_parser = method)]
    pub method: Method,
    /// Path, with or without the slash at its beginning
    pub path: String,
    /// Body
    pub body: Option<String>,
}

/// Arguments of `wait`.
#[derive(Clone, Debug, Args)]
pub struct WaitArgs {
    /// URL that answers 200 when the proxy is ready
    #[arg(long, default_value = "http://localhost:15021/healthz/ready", value_parser = http_url)]
    pub url: Uri,
    /// Maximum wait in seconds
    #[arg(
        long = "timeoutSeconds",
        value_name = "SECONDS",
        default_value = "60",
        value_parser = seconds
    )]
    pub timeout: Duration,
    /// Delay between two requests in milliseconds
    #[arg(
        long = "periodMillis",
        value_name = "MILLISECONDS",
        default_value = "500",
        value_parser = milliseconds
    )]
    pub period: Duration,
    /// Timeout of a request in milliseconds
    #[arg(
        long = "requestTimeoutMillis",
        value_name = "MILLISECONDS",
        default_value = "500",
        value_parser = milliseconds
    )]
    pub request_timeout: Duration,
}

/// Arguments of `version`.
#[derive(Clone, Debug, Args)]
pub struct VersionArgs {
    /// Print the version alone
    #[arg(short, long)]
    pub short: bool,
    /// Format of the output
    #[arg(short, long, value_enum)]
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

/// Arguments of `istio-iptables`.
#[derive(Clone, Debug, Args)]
pub struct IptablesArgs {
    /// Arguments for `istio-init`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Arguments of `envoy-child`.
#[derive(Clone, Debug, Args)]
pub struct EnvoyChildArgs {
    /// Process id of the agent
    pub parent: u32,
    /// Path of Envoy
    pub envoy: PathBuf,
    /// Arguments for Envoy
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Separates the unknown flags from a command line of `proxy`. The word after an unknown flag is
/// its value, unless it is a flag or a role.
fn split_unknown(
    command: &clap::Command,
    arguments: Vec<OsString>,
) -> (Vec<OsString>, Vec<String>) {
    let Some(proxy) = command.find_subcommand("proxy") else { return (arguments, Vec::new()) };
    let is_known = |name: &str| {
        let mut args = proxy.get_arguments().chain(command.get_arguments());
        let is_name = |arg: &clap::Arg| match name.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => arg.get_short().is_some_and(|short| name[1..].starts_with(short)),
        };
        ["--help", "-h"].contains(&name) || args.any(is_name)
    };
    let runs_proxy = arguments.iter().skip(1).find(|word| {
        command.get_subcommands().any(|inner| word.to_str() == Some(inner.get_name()))
    });
    if runs_proxy.and_then(|word| word.to_str()) != Some("proxy") {
        return (arguments, Vec::new());
    }
    let (mut known, mut unknown) = (Vec::with_capacity(arguments.len()), Vec::new());
    let mut words = arguments.into_iter().peekable();
    while let Some(word) = words.next() {
        match word.to_str().and_then(flag_name) {
            Some(name) if !is_known(name) => {
                unknown.push(name.to_owned());
                let is_value = |next: &OsString| {
                    next.to_str().is_none_or(|next| {
                        !next.starts_with('-') && !["sidecar", "router"].contains(&next)
                    })
                };
                if word == *name {
                    words.next_if(is_value);
                }
            }
            _ => known.push(word),
        }
    }
    (known, unknown)
}

/// Returns the flag of a word: `--domain` of `--domain=x`, `-x` of `-xvalue`.
fn flag_name(word: &str) -> Option<&str> {
    let name = word.split('=').next()?;
    if name.starts_with("--") {
        return (name != "--").then_some(name);
    }
    let letter = name.strip_prefix('-')?.chars().next()?;
    Some(&name[..=letter.len_utf8()])
}

/// Validates Envoy's `COMPONENT:LEVEL,...`; an empty list is valid.
fn component_levels(text: &str) -> Result<String, String> {
    let is_entry = |entry: &str| {
        let entry = entry.split_once(':');
        entry.is_some_and(|(component, level)| !component.is_empty() && LOG_LEVELS.contains(&level))
    };
    if text.is_empty() || text.split(',').all(is_entry) {
        return Ok(text.to_owned());
    }
    Err(format!("expected COMPONENT:LEVEL,... with the levels {}", LOG_LEVELS.join(", ")))
}

fn address(text: &str) -> Result<String, String> {
    // The agent replaces `$(HOST_IP)` by the node's address.
    if is_address(&text.replacen("$(HOST_IP)", "127.0.0.1", 1)) {
        return Ok(text.to_owned());
    }
    Err("expected HOST:PORT without a scheme, and a port from 1 to 65535".to_owned())
}

fn address_or_none(text: &str) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { address(text) }
}

fn method(text: &str) -> Result<Method, String> {
    Method::from_bytes(text.to_ascii_uppercase().as_bytes())
        .map_err(|_| "expected an HTTP method, such as GET or POST".to_owned())
}

fn http_url(text: &str) -> Result<Uri, String> {
    let url = text.parse::<Uri>().ok();
    let url = url.filter(|url| url.scheme_str() == Some("http") && url.host().is_some());
    url.ok_or_else(|| {
        "expected http://HOST[:PORT]/PATH, as http://localhost:15021/healthz/ready".to_owned()
    })
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}

fn milliseconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_millis)
}

/// Maximum of Envoy's worker threads; a larger number is a mistake.
pub(crate) const MOST_THREADS: u32 = 65535;
const LOG_LEVELS: [&str; 8] =
    ["trace", "debug", "info", "warning", "warn", "error", "critical", "off"];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(Command, Vec<String>), String> {
        let words = line.split_whitespace().map(OsString::from);
        Arguments::parse_lenient(words)
            .map(|(arguments, unknown)| (arguments.command, unknown))
            .map_err(|error| error.to_string())
    }

    fn proxy(line: &str) -> (Box<ProxyArgs>, Vec<String>) {
        match parse(line) {
            Ok((Command::Proxy(proxy), unknown)) => (proxy, unknown),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn injected_arguments_are_parsed() {
        let (proxy, unknown) = proxy(
            "pilot-agent proxy sidecar --domain shop.svc.cluster.local \
             --proxyLogLevel=warning --proxyComponentLogLevel=misc:error \
             --log_output_level=default:info --log_as_json --concurrency 2",
        );
        assert_eq!((proxy.role, proxy.concurrency), (RoleArg::Sidecar, Some(2)));
        assert_eq!(proxy.domain.as_deref(), Some("shop.svc.cluster.local"));
        assert!(unknown.is_empty(), "{unknown:?}");

        let drain = parse("pilot-agent request --debug-port=15020 POST drain");
        let Ok((Command::Request(request), _)) = drain else { panic!("{drain:?}") };
        assert_eq!((request.port, &*request.path), (15020, "drain"));

        let Ok((Command::Wait(wait), _)) = parse("pilot-agent wait") else { panic!("no wait") };
        assert_eq!(wait.timeout, Duration::from_secs(60));
    }

    #[test]
    fn unknown_flags_of_proxy_are_returned() {
        let (parsed, unknown) =
            proxy("pilot-agent proxy --trust-domain=a --old b router --alone --domain d");
        assert_eq!(unknown, ["--trust-domain", "--old", "--alone"]);
        assert_eq!((parsed.role, parsed.domain.as_deref()), (RoleArg::Router, Some("d")));
        let (parsed, unknown) = proxy("pilot-agent proxy -x a -yb -z=c --domain d router");
        assert_eq!(unknown, ["-x", "-y", "-z"]);
        assert_eq!((parsed.role, parsed.domain.as_deref()), (RoleArg::Router, Some("d")));
        let (parsed, unknown) = proxy("pilot-agent proxy --old sidecar");
        assert_eq!((parsed.role, &*unknown), (RoleArg::Sidecar, &["--old".to_owned()][..]));
    }

    #[test]
    fn unknown_flags_of_other_commands_are_rejected() {
        let error = parse("pilot-agent wait --periodMilis 5").unwrap_err();
        assert!(error.contains("--periodMillis"), "{error}");
    }

    #[test]
    fn last_value_of_a_repeated_flag_counts() {
        let line = "pilot-agent proxy --domain a --concurrency 1 --domain b --concurrency=2 \
                    --log_as_json --log_as_json=false --hotRestart --hotRestart=false";
        let (parsed, _) = proxy(line);
        assert_eq!((parsed.domain.as_deref(), parsed.concurrency), (Some("b"), Some(2)));
        assert_eq!(parsed.hot_restart, Some(false));
    }

    #[test]
    fn invalid_values_of_flags_are_usage_errors() {
        for line in [
            "proxy --discoveryAddress=foo",
            "proxy --discoveryAddress=https://istiod:15012",
            "proxy --serviceCluster=",
            "proxy --zipkinAddress=foo",
            "proxy --concurrency 65536",
            "proxy --proxyLogLevel=loud",
            "proxy --proxyComponentLogLevel=misc",
            "proxy --proxyComponentLogLevel=misc:error,upstream:loud",
            "wait --url=foo",
            "wait --url=https://localhost/",
            "request --debug-port=0 GET /x",
        ] {
            let words = std::iter::once("pilot-agent").chain(line.split(' ')).map(OsString::from);
            let error = Arguments::parse_lenient(words).map(drop).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
        let words = ["pilot-agent", "request", "G T", "/x"].map(OsString::from);
        let error = Arguments::parse_lenient(words).map(drop).unwrap_err();
        assert!(error.to_string().contains("expected an HTTP method"), "{error}");
        for line in [
            "proxy --proxyComponentLogLevel= --proxyLogLevel=off --zipkinAddress=$(HOST_IP):9411",
            "proxy --proxyComponentLogLevel=misc:error,upstream:debug",
            "proxy --discoveryAddress=[::1]:15012",
            "request --debug-port=31020 get x",
        ] {
            parse(&format!("pilot-agent {line}")).unwrap();
        }
    }

    #[test]
    fn help_is_a_command() {
        for line in ["pilot-agent help", "pilot-agent help proxy"] {
            let help = parse(line).unwrap_err();
            assert!(help.contains("Usage: pilot-agent"), "{help}");
        }
    }

    #[test]
    fn hidden_commands_pass_flags_through() {
        let parsed = parse("pilot-agent istio-iptables -p 15001 --dry-run");
        let Ok((Command::IstioIptables(iptables), _)) = parsed else { panic!("{parsed:?}") };
        assert_eq!(iptables.arguments, ["-p", "15001", "--dry-run"]);
        let parsed = parse("pilot-agent envoy-child 7 /usr/local/bin/envoy -c a.json --base-id 3");
        let Ok((Command::EnvoyChild(child), _)) = parsed else { panic!("{parsed:?}") };
        assert_eq!((child.parent, child.arguments.len()), (7, 4));
    }

    #[test]
    fn flags_without_a_function_are_reported() {
        let (parsed, _) = proxy("pilot-agent proxy --templateFile /a.tmpl");
        let rejected = parsed.absent.rejected().unwrap();
        assert!(rejected.starts_with("--templateFile /a.tmpl: "), "{rejected}");
        let (parsed, _) = proxy(
            "pilot-agent proxy --stsPort=15463 --tokenManagerPlugin GoogleTokenExchange \
             --profiling --serviceregistry Consul --discoveryRefreshDelay 1s",
        );
        assert_eq!((parsed.absent.rejected(), parsed.absent.warnings().len()), (None, 5));
        let (parsed, _) = proxy("pilot-agent proxy --stsPort=0 --profiling=false");
        assert_eq!(parsed.absent.warnings(), Vec::<String>::new());
    }

    #[test]
    fn unknown_log_level_is_named() {
        let error = parse("pilot-agent proxy router --log_output_level=default:loud").unwrap_err();
        assert!(error.contains("\"default:loud\" is not a list of"), "{error}");
    }
}
