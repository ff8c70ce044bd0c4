//! `istioctl experimental graph`: the services of a mesh, and who may call them.

mod mesh_graph;
mod pictures;
#[cfg(test)]
mod reference;
mod service_node;
#[cfg(test)]
mod tests;

use anyhow::anyhow;
use clap::Args;
use serde_json::Value;

use self::mesh_graph::MeshGraph;
use crate::cluster::ClusterClient;
use crate::control_plane::DebugPages;
use crate::output::{Form, PictureForm};
use crate::{Failure, Streams, output};

/// Show who may call which service of the mesh, and with which protection
///
/// The control plane answers: its services, their endpoints, the modes of mutual TLS by
/// PeerAuthentication, and the namespaces to which a service is exported. Rules of
/// AuthorizationPolicy and Sidecar are not part of this control plane, so that they do not appear.
#[expect(clippy::doc_markdown, reason = "it is shown as help, where backticks only disturb")]
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Graph {
    /// Show the services of all namespaces, as without --namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    pages: DebugPages,
    /// Output format
    #[arg(short, long, value_name = "FORM", value_enum, default_value = "table")]
    output: PictureForm,
}

impl Graph {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let namespace = if self.all_namespaces { "" } else { cluster_client.namespace };
        let graph = self.pages.run(cluster_client, async |source| {
            let page = async |path| {
                let pages = source.ask(path).await?;
                first_answer(pages.into_iter().map(|page| page.content))
            };
            let (services, endpoints) =
                (page("/debug/registry").await, page("/debug/endpoints").await);
            MeshGraph::parse(&services?, &endpoints?, namespace)
        })?;
        let text = match self.output {
            PictureForm::Table => Ok(graph.text()),
            PictureForm::Json => Form::Json.render(&graph.json()),
            PictureForm::Yaml => Form::Yaml.render(&graph.json()),
            PictureForm::Mermaid => Ok(pictures::mermaid(&graph)),
            PictureForm::Svg => Ok(pictures::svg(&graph)),
        };
        let text = text.map_err(Failure::from_error)?;
        output::write(streams.output, &text).map_err(Failure::from_error)
    }
}

/// Returns the first page; all replicas know the same mesh.
fn first_answer(pages: impl Iterator<Item = anyhow::Result<Value>>) -> anyhow::Result<Value> {
    let mut problem = None;
    for page in pages {
        match page {
            Ok(content) => return Ok(content),
            Err(error) => problem = Some(error),
        }
    }
    Err(problem.unwrap_or_else(|| anyhow!("no answer")))
}

const EXAMPLES: &str = "\
Examples:
  istioctl x graph
  istioctl x graph -n shop -o json
  istioctl x graph -o svg > mesh.svg
  istioctl x graph --debug-address 127.0.0.1:8080";
