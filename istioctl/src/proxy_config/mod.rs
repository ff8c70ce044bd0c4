//! `istioctl proxy-config`: the configuration that a pod's Envoy uses.

mod bootstrap;
mod clusters;
mod dump;
mod endpoints;
mod listeners;
mod routes;
mod secrets;
mod source;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::cluster::ClusterClient;
use crate::output::Form;
use crate::table::table;
use crate::{Failure, Streams, output};
use clusters::Clusters;
use dump::Entry;
use endpoints::Endpoints;
use listeners::Listeners;
use routes::Routes;
use source::{CONFIGURATION, ENDPOINTS, Source};

/// Show the configuration of a pod's Envoy
///
/// The configuration is Envoy's own dump, read through the API server from the pod, or from a file.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ProxyConfig {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The clusters: where Envoy sends requests
    #[command(visible_aliases = ["clusters", "c"])]
    Cluster(Section<Clusters>),
    /// The endpoints of the clusters, with their health; --file takes Envoy's `/clusters?format=json`
    #[command(visible_aliases = ["endpoints", "ep"])]
    Endpoint(Section<Endpoints>),
    /// The listeners, with the target of each filter chain
    #[command(visible_aliases = ["listeners", "l"])]
    Listener(Section<Listeners>),
    /// The virtual hosts and their routes
    #[command(visible_aliases = ["routes", "r"])]
    Route(Section<Routes>),
    /// The certificates, without keys
    #[command(visible_aliases = ["secrets", "s"])]
    Secret(Section<secrets::Secrets>),
    /// The bootstrap
    #[command(visible_alias = "b")]
    Bootstrap(Section<bootstrap::Bootstrap>),
    /// The whole dump as JSON
    #[command(visible_alias = "a")]
    All(Section<dump::Whole>),
}

/// A part of the dump, with the flags that select its entries.
trait Part: Args {
    /// Path of Envoy's admin interface that has the part.
    const PATH: &'static str = CONFIGURATION;
    /// Heads of the table's columns.
    const COLUMNS: &'static [&'static str];

    /// Selects entries of a dump.
    fn entries(&self, dump: &Value) -> Vec<Entry>;
}

#[derive(Debug, Args)]
struct Section<P: Args> {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    part: P,
    /// Output format
    #[arg(short, long, value_name = "FORM", value_enum, default_value = "table")]
    output: Form,
}

impl ProxyConfig {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        match &self.command {
            Command::Cluster(section) => section.run(cluster_client, streams),
            Command::Endpoint(section) => section.run(cluster_client, streams),
            Command::Listener(section) => section.run(cluster_client, streams),
            Command::Route(section) => section.run(cluster_client, streams),
            Command::Secret(section) => section.run(cluster_client, streams),
            Command::Bootstrap(section) => section.run(cluster_client, streams),
            Command::All(section) => section.run(cluster_client, streams),
        }
    }
}

impl<P: Part> Section<P> {
    fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let dump = self.source.read(P::PATH, cluster_client)?;
        let entries = self.part.entries(&dump);
        let text = match self.output {
            // A part without columns has no other form.
            Form::Table if !P::COLUMNS.is_empty() => {
                let rows: Vec<_> = entries.into_iter().flat_map(|entry| entry.rows).collect();
                table(P::COLUMNS, &rows)
            }
            form => {
                let objects = entries.into_iter().map(|entry| entry.object).collect();
                form.render(&objects).map_err(Failure::from_error)?
            }
        };
        output::write(streams.output, &text).map_err(Failure::from_error)
    }
}

const EXAMPLES: &str = "\
Examples:
  istioctl proxy-config cluster web-7d4b9c-x2x8v.shop --port 80
  istioctl proxy-config endpoint web-7d4b9c-x2x8v -n shop --cluster 'outbound|80||api.shop.svc.cluster.local'
  istioctl proxy-config listener --file dump.json -o json";
