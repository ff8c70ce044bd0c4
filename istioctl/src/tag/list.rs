//! List of the tags of a cluster.

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::cluster_state::ClusterState;
use crate::cluster::{Cluster, ClusterClient};
use crate::output::Form;
use crate::table::table;
use crate::{Failure, Streams, cluster, output};

/// List the revision tags, their revisions, and the namespaces that use them
#[derive(Debug, Args)]
pub(super) struct ListTags {
    /// Output format
    #[arg(short, long, value_name = "FORM", value_enum, default_value = "table")]
    output: Form,
}

impl ListTags {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let state = cluster::ask(cluster_client.flags, async |Cluster { client, name }| {
            ClusterState::read(&client, streams).await.context(name)
        });
        let state = state.map_err(Failure::from_error)?;
        let parsed = state.configurations.iter().map(|(parsed, _)| parsed);
        let tags = parsed.filter_map(|parsed| Some((parsed.tag.as_deref()?, parsed)));
        let mut tags: Vec<_> = tags.collect();
        tags.sort_by_key(|(tag, _)| *tag);
        if let (Form::Table, []) = (self.output, &*tags) {
            streams.say("No Istio revision tag MutatingWebhookConfigurations to list");
            return Ok(());
        }
        let text = match self.output {
            Form::Table => {
                let rows = tags.iter().map(|(tag, parsed)| {
                    let namespaces = state.namespaces_of(tag).join(",");
                    [(*tag).to_owned(), parsed.revision.clone(), namespaces]
                });
                table(&["TAG", "REVISION", "NAMESPACES"], &rows.collect::<Vec<_>>())
            }
            form => {
                let rows = tags.iter().map(|(tag, parsed)| {
                    json!({
                        "tag": tag,
                        "revision": parsed.revision,
                        "webhook": parsed.name,
                        "namespaces": state.namespaces_of(tag),
                    })
                });
                form.render(&rows.collect()).map_err(Failure::from_error)?
            }
        };
        output::write(streams.output, &text).map_err(Failure::from_error)
    }
}
