//! Commands and shared flags of `istioctl`.

use clap::{Parser, Subcommand};
use kube_access::names;

use crate::analyze::Analyze;
use crate::client_flags::ClientFlags;
use crate::cluster::ClusterClient;
use crate::completion::Completion;
use crate::exit_code::CommandOutcome;
use crate::experimental::Experimental;
use crate::istio_flags::{ControlPlaneFlags, LogFlags};
use crate::kube_inject::KubeInject;
use crate::program::Program;
use crate::proxy_config::ProxyConfig;
use crate::proxy_status::ProxyStatus;
use crate::tag::Tag;
use crate::uninject::Uninject;
use crate::version::Version;
use crate::{Failure, Streams};

/// Adds Istio's sidecar to Kubernetes manifests, and inspects a cluster's pods and proxies.
#[derive(Debug, Parser)]
#[command(name = "istioctl", version = program_version::title(), arg_required_else_help = true)]
#[command(next_help_heading = SHARED)]
pub(super) struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Namespace of objects without one, and of the objects to list [default: that of the context;
    /// lists have all]
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAMESPACE",
        default_value = "",
        hide_default_value = true,
        value_parser = names::label_or_nothing
    )]
    namespace: String,
    /// The control plane's namespace, if a cluster is used
    #[arg(
        short,
        long = "istioNamespace",
        global = true,
        value_name = "NAMESPACE",
        default_value = "istio-system",
        value_parser = names::label
    )]
    istio_namespace: String,
    #[command(flatten)]
    cluster: ClientFlags,
    /// Write only errors to standard error: no summaries, notes and warnings
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Colour results and messages [default: on a terminal, unless `NO_COLOR` is set]
    #[arg(
        long,
        global = true,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true
    )]
    color: Option<bool>,
    #[command(flatten)]
    log: LogFlags,
    #[command(flatten)]
    remote: ControlPlaneFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    Analyze(Analyze),
    Completion(Completion),
    #[command(name = "kube-inject")]
    KubeInject(Box<KubeInject>),
    #[command(visible_alias = "x", alias = "exp")]
    Experimental(Experimental),
    #[command(name = "proxy-config", visible_alias = "pc")]
    ProxyConfig(ProxyConfig),
    #[command(name = "proxy-status", visible_alias = "ps")]
    ProxyStatus(ProxyStatus),
    Tag(Tag),
    Uninject(Uninject),
    Version(Version),
}

impl Cli {
    /// Applies the flags about messages and colours to the streams.
    pub(super) fn apply(&self, streams: &mut Streams<'_>) {
        streams.quiet = self.quiet;
        streams.terminal.apply(self.color);
    }

    pub(super) fn run(
        &self,
        program: Program,
        streams: &mut Streams<'_>,
    ) -> Result<CommandOutcome, Failure> {
        self.cluster.check().map_err(Failure::Usage)?;
        self.remote.refuse().map_err(Failure::Usage)?;
        let cluster_client = ClusterClient {
            flags: &self.cluster,
            namespace: &self.namespace,
            control_plane: &self.istio_namespace,
        };
        match &self.command {
            Command::Analyze(command) => return command.run(cluster_client, streams),
            Command::Completion(command) => command.run(program, streams),
            Command::KubeInject(command) => return command.run(cluster_client, streams),
            Command::Experimental(command) => return command.run(cluster_client, streams),
            Command::ProxyConfig(command) => command.run(cluster_client, streams),
            Command::ProxyStatus(command) => command.run(cluster_client, streams),
            Command::Tag(command) => command.run(cluster_client, streams),
            Command::Uninject(command) => return command.run(streams),
            Command::Version(command) => command.run(cluster_client, streams),
        }
        .map(|()| CommandOutcome::Done)
    }
}

/// Heading of the flags that every command has; a command's own flags stand before it.
const SHARED: &str = "Shared flags";
