//! Command-line flags and environment variables of `sidecar-injector`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser};
use kube_access::names;
use webhook_certs::cli::rotation_args::{self, RotationArgs};
use webhook_certs::server_names;
use webhook_certs::serving::tls_parameters::MinimumVersion;

use super::report_args::ReportArgs;
use crate::kubernetes::native_sidecars::NativeSidecars;
use crate::webhook::telemetry::log::Levels;

/// Adds sidecars to pods: a mutating admission webhook with Istio's configuration and interface.
///
/// In a cluster it reads its configuration from `ConfigMap`s and maintains its own certificate.
/// Elsewhere, and for each named file, it uses only files and built-in defaults.
#[derive(Clone, Debug, Parser)]
#[command(name = "sidecar-injector", version = program_version::text(), after_help = EXIT_CODES)]
pub struct Args {
    /// Configuration of injection.
    #[command(flatten)]
    pub configuration: ConfigurationArgs,
    /// Serving certificate.
    #[command(flatten)]
    pub certificate: CertificateArgs,
    /// TLS parameters and client authentication.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Listeners and shutdown.
    #[command(flatten)]
    pub server: ServerArgs,
    /// Limits for one client.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// The kubeconfig of the cluster [default: the service account in a pod, none elsewhere]
    #[arg(long, value_name = "FILE", help_heading = CLUSTER)]
    pub kubeconfig: Option<PathBuf>,
    /// The platform; on `openshift`, the annotations of a pod's namespace restrict its users
    #[arg(long, env = "PLATFORM", value_name = "NAME", default_value = "", help_heading = CLUSTER)]
    pub platform: String,
    /// The control plane's namespace
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME", default_value = "istio-system",
          help_heading = CLUSTER, value_parser = names::label)]
    pub namespace: String,
    /// The control plane's revision; empty or `default` is the one without a suffix
    #[arg(long, env = "REVISION", value_name = "NAME", default_value = "", help_heading = CLUSTER,
          value_parser = names::revision)]
    pub revision: String,
    /// Lifetimes and intervals of the certificate in the cluster.
    #[command(flatten)]
    pub upkeep: RotationArgs,
    /// Reports on pods.
    #[command(flatten)]
    pub reports: ReportArgs,
    /// Log levels and format.
    #[command(flatten)]
    pub log: LogArgs,
}

impl Args {
    /// Parses the command line of the process; ends it after help and invalid usage.
    pub fn from_process() -> Self {
        Self::from_arg_matches(
            &grammar().get_matches_from(program_version::as_flag(std::env::args_os())),
        )
        .unwrap_or_else(|error| error.exit())
    }
}

/// Returns the flags, with the defaults of all of them in the help.
pub(in crate::webhook) fn grammar() -> clap::Command {
    rotation_args::with_defaults(Args::command())
}

/// Flags of the configuration.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Configuration")]
pub struct ConfigurationArgs {
    /// The `config` document of Istio's `ConfigMap`, or a bare template; with any of the three
    /// files named, no `ConfigMap` is read [default: that of the cluster, else the built-in one]
    #[arg(long = "injectConfigFile", value_name = "FILE")]
    pub inject_config: Option<PathBuf>,
    /// The `values` document of Istio's `ConfigMap`
    /// [default: that of the cluster, else the built-in one]
    #[arg(long = "valuesFile", value_name = "FILE")]
    pub values: Option<PathBuf>,
    /// The `mesh` document [default: that of the cluster, else the built-in one]
    #[arg(long = "meshConfigFile", value_name = "FILE")]
    pub mesh_config: Option<PathBuf>,
    /// Interval of checks for changed files
    #[arg(long = "reload-interval", value_name = "DURATION", default_value = "2s",
          value_parser = go_duration::positive)]
    pub reload_interval: Duration,
    /// Makes the proxy a native sidecar, unless the pod decides; `auto` does so if the pod's node,
    /// or every node, has Kubernetes 1.33 or later, and without a cluster
    #[arg(
        long = "enable-native-sidecars",
        env = "ENABLE_NATIVE_SIDECARS",
        value_name = "auto|true|false",
        default_value = "auto"
    )]
    pub native_sidecars: NativeSidecars,
    /// The compliance policy passed to the proxy
    #[arg(
        long = "compliance-policy",
        env = "COMPLIANCE_POLICY",
        value_name = "POLICY",
        default_value = ""
    )]
    pub compliance_policy: String,
}

/// Flags of the serving certificate.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Certificate")]
pub struct CertificateArgs {
    /// The certificate chain in PEM, leaf first [default: none; the process obtains a certificate]
    #[arg(long = "tlsCertFile", value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// The key of the certificate in PEM [default: none]
    #[arg(long = "tlsKeyFile", value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// Output file for the CA of the certificate that the process creates without a cluster and
    /// without --tlsCertFile, so that a client can trust it [default: none]
    #[arg(long = "writeCaFile", value_name = "FILE", conflicts_with = "certificate")]
    pub write_ca: Option<PathBuf>,
    /// The Service through which the API server reaches the webhook
    #[arg(long, value_name = "NAME", default_value = "sidecar-injector",
          value_parser = names::label)]
    pub service: String,
    /// A mutating webhook configuration whose `caBundle` is maintained; may be repeated, for
    /// revision tags [default: istio-sidecar-injector, with the revision as suffix unless it is
    /// `default`]
    #[arg(long = "webhook-configuration", value_name = "NAME", value_parser = names::subdomain)]
    pub webhook_configurations: Vec<String>,
    /// A further DNS name or address of the certificate; may be repeated [default: none]
    #[arg(long = "extra-san", value_name = "NAME", value_parser = server_names::parse_name)]
    pub extra_names: Vec<String>,
    /// The cluster's DNS domain
    #[arg(long = "cluster-domain", value_name = "DOMAIN", default_value = "cluster.local",
          value_parser = server_names::parse_domain)]
    pub cluster_domain: String,
}

/// Flags of TLS and of client authentication.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// The minimum TLS version: `TLSV1_2` or `TLSV1_3`
    #[arg(long = "tls-min-version", value_name = "VERSION", default_value_t)]
    pub minimum_version: MinimumVersion,
    /// The cipher suites by their IANA names, separated by commas; if none of TLS 1.3 is named, all
    /// of TLS 1.3 are enabled as well [default: all]
    #[arg(long = "tls-cipher-suites", value_name = "NAMES", value_delimiter = ',')]
    pub cipher_suites: Vec<String>,
    /// The CAs of clients in PEM; with it, only clients with a certificate of these CAs and a name
    /// of --client-allowed-names are served [default: none]
    #[arg(long = "client-ca-file", value_name = "FILE", requires = "client_names")]
    pub client_authority: Option<PathBuf>,
    /// The allowed common names or DNS names of client certificates, separated by commas
    /// [default: none]
    #[arg(
        long = "client-allowed-names",
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "client_authority"
    )]
    pub client_names: Vec<String>,
}

/// Flags of the listeners and of the shutdown.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// Address of the webhook; without a host, all addresses
    #[arg(long = "httpsAddr", value_name = "[ADDRESS]:PORT", default_value = ":15017",
          value_parser = listen_address)]
    pub https: SocketAddr,
    /// Address of health and metrics as plain HTTP
    #[arg(long = "adminAddr", value_name = "[ADDRESS]:PORT", default_value = ":15014",
          value_parser = listen_address)]
    pub admin: SocketAddr,
    /// Address of the kubelet's probes as plain HTTP, besides --adminAddr: a port that no
    /// other caller needs, so that a network policy can close it to pods [default: none]
    #[arg(long = "probeAddr", value_name = "[ADDRESS]:PORT", value_parser = listen_address)]
    pub probe: Option<SocketAddr>,
    /// Time after SIGTERM in which reviews are still accepted, while the endpoint is removed
    #[arg(long = "shutdown-delay", value_name = "DURATION", default_value = "10s",
          value_parser = go_duration::non_negative)]
    pub shutdown_delay: Duration,
    /// Time for requests in flight after that
    #[arg(long = "shutdown-grace", value_name = "DURATION", default_value = "20s",
          value_parser = go_duration::non_negative)]
    pub shutdown_grace: Duration,
}

/// Flags of the limits for one client.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Maximum of concurrent connections; above it, the address with the most connections that wait
    /// for their client loses one
    #[arg(long = "max-connections", value_name = "NUMBER", default_value = "1024",
          value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub connections: u32,
    /// Maximum of concurrent reviews, at most the number of cores; further ones wait until their
    /// deadline, in turns by address and namespace
    #[arg(long = "max-reviews", value_name = "NUMBER", default_value = "256",
          value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub reviews: u32,
    /// Maximum size of a review
    #[arg(long = "max-review-bytes", value_name = "BYTES", default_value = "6291456",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub review_bytes: u32,
    /// Timeout of a review; the API server's timeout less half a second, if that is shorter
    #[arg(long = "review-timeout", value_name = "DURATION", default_value = "9s",
          value_parser = go_duration::positive)]
    pub review: Duration,
    /// Timeout of a TLS handshake
    #[arg(long = "handshake-timeout", value_name = "DURATION", default_value = "5s",
          value_parser = go_duration::positive)]
    pub handshake: Duration,
    /// Timeout of the head of a request
    #[arg(long = "header-timeout", value_name = "DURATION", default_value = "5s",
          value_parser = go_duration::positive)]
    pub head: Duration,
    /// Timeout of idle connections, also before the first request; API servers keep theirs for 90
    /// s, and should be the ones to close them
    #[arg(long = "idle-timeout", value_name = "DURATION", default_value = "120s",
          value_parser = go_duration::positive)]
    pub idle: Duration,
}

/// Flags of the log.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// Levels by scope, as Istio writes them: none, fatal, error, warn, info, debug
    #[arg(
        long = "log_output_level",
        value_name = "[SCOPE:]LEVEL,...",
        default_value = "default:info"
    )]
    pub levels: Levels,
    /// Log as JSON
    #[arg(long = "log_as_json", value_name = "true|false", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", hide_possible_values = true,
          value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    pub as_json: bool,
}

/// Parses `ADDRESS:PORT`, or `:PORT` for all addresses of both families.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let wrong = || "want ADDRESS:PORT with an IP address, or :PORT".to_owned();
    match text.strip_prefix(':') {
        Some(port) => {
            let port = port.parse().map_err(|_| wrong())?;
            Ok(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port))
        }
        None => text.parse().map_err(|_| wrong()),
    }
}

const CLUSTER: &str = "Cluster";
const EXIT_CODES: &str = "Exit codes:\n  0  terminated by a signal\n  1  failed\n  2  invalid usage or \
                          configuration";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn flags_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn go_style_addresses_are_parsed() {
        let table = [
            (":15017", "[::]:15017"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("[::1]:8443", "[::1]:8443"),
        ];
        for (text, expected) in table {
            assert_eq!(listen_address(text).unwrap().to_string(), expected);
        }
        for text in ["", ":", "15017", "localhost:1", ":65536"] {
            assert!(listen_address(text).is_err(), "{text}");
        }
    }
}
