//! Commands and shared flags of `istioctl`.

use clap::{Parser, Subcommand};

use crate::analyze::Analyze;
use crate::cluster::ClusterClient;
use crate::experimental::Experimental;
use crate::istio_flags::{ClusterFlags, ControlPlaneFlags, LogFlags};
use crate::kube_inject::KubeInject;
use crate::proxy_config::ProxyConfig;
use crate::proxy_status::ProxyStatus;
use crate::tag::Tag;
use crate::uninject::Uninject;
use crate::version::Version;
use crate::{Failure, Outcome, Streams, VERSION};

/// Adds Istio's sidecar to Kubernetes manifests, and inspects a cluster's pods and proxies.
#[derive(Debug, Parser)]
#[command(name = "istioctl", version = VERSION, arg_required_else_help = true)]
#[command(next_help_heading = SHARED)]
pub(super) struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Namespace of objects without one
    #[arg(short, long, global = true, default_value = "", hide_default_value = true)]
    namespace: String,
    /// The control plane's namespace, if a cluster is used
    #[arg(short, long = "istioNamespace", global = true, default_value = "istio-system")]
    istio_namespace: String,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    log: LogFlags,
    #[command(flatten)]
    remote: ControlPlaneFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    Analyze(Analyze),
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
    pub(super) fn run(&self, streams: &mut Streams<'_>) -> Result<Outcome, Failure> {
        self.remote.refuse().map_err(Failure::Usage)?;
        let cluster_client = ClusterClient {
            flags: &self.cluster,
            namespace: &self.namespace,
            control_plane: &self.istio_namespace,
        };
        match &self.command {
            Command::Analyze(command) => return command.run(cluster_client, streams),
            Command::KubeInject(command) => return command.run(cluster_client, streams),
            Command::Experimental(command) => command.run(cluster_client, streams),
            Command::ProxyConfig(command) => command.run(cluster_client, streams),
            Command::ProxyStatus(command) => command.run(cluster_client, streams),
            Command::Tag(command) => command.run(cluster_client, streams),
            Command::Uninject(command) => return command.run(streams),
            Command::Version(command) => command.run(&self.cluster, streams),
        }
        .map(|()| Outcome::Done)
    }
}

/// Heading of the flags that every command has; a command's own flags stand before it.
const SHARED: &str = "Shared flags";
