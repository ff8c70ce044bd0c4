//! `istioctl experimental precheck`: objects that lose their effect when a namespace moves from istiod.

mod from_cluster;
mod lost_object;

use std::path::PathBuf;

use clap::Args;
use injector::manifest::Document;
use mesh::istio_kinds::Access;
use serde_json::Value;

use self::from_cluster::{Found, applies_from_root};
use self::lost_object::LostObject;
use crate::cluster::{Cluster, ClusterClient};
use crate::exit_code::CommandOutcome;
use crate::output::Form;
use crate::table::table;
use crate::{Failure, Streams, cluster, inputs, objects, output, unrendered};

/// List the objects that lose their effect when a namespace moves from istiod
///
/// Policies come first. Workloads that an AuthorizationPolicy selects take no connection, since its
/// rules are not enforced. The policies of the control plane's namespace are listed too, since they
/// apply to all. Objects of other namespaces, such as a VirtualService for a host of this one, are
/// not looked at; nor is what stands in pods and in the settings of the mesh.
///
/// The command exits with 1 if there is such an object, or a kind cannot be listed.
#[expect(clippy::doc_markdown, reason = "it is shown as help, where backticks only disturb")]
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Precheck {
    /// A file, or a directory of .yaml, .yml and .json files, in place of a cluster; `-` is standard
    /// input. May be repeated
    #[arg(short, long, value_name = "FILE|DIRECTORY")]
    filename: Vec<PathBuf>,
    /// Read the subdirectories of a directory too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// List the objects of all namespaces, as without --namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Output format
    #[arg(short, long, value_name = "FORM", value_enum, default_value = "table")]
    output: Form,
}

impl Precheck {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<CommandOutcome, Failure> {
        let ClusterClient { flags, namespace, control_plane } = cluster_client;
        let Found { lost, errors } = if self.filename.is_empty() {
            let found = cluster::ask(flags, async |Cluster { client, .. }| {
                Ok(Found::list(&client, namespace, control_plane).await)
            });
            found.map_err(Failure::from_error)?
        } else {
            self.of_files(namespace, control_plane, streams)
        };
        let text = match self.output {
            Form::Table if lost.is_empty() => String::new(),
            Form::Table => table(HEADER, &lost.iter().map(LostObject::cells).collect::<Vec<_>>()),
            form => {
                let objects = lost.iter().map(LostObject::json).collect();
                form.render(&objects).map_err(Failure::from_error)?
            }
        };
        output::write(streams.output, &text).map_err(Failure::from_error)?;
        if !errors.is_empty() {
            return Err(Failure::Errors(errors));
        }
        streams.say(&summary(&lost));
        Ok(if lost.is_empty() { CommandOutcome::Done } else { CommandOutcome::LosesEffect })
    }

    /// Reads the objects of files. Those without a namespace are of the one of the flag.
    fn of_files(&self, namespace: &str, root: &str, streams: &mut Streams<'_>) -> Found {
        let (files, errors) = inputs::read("--filename ", &self.filename, self.recursive, streams);
        let mut found = Found { errors, ..Found::default() };
        let default = if namespace.is_empty() { "default" } else { namespace };
        for file in &files {
            for document in Document::split(&file.text) {
                match objects::parse(document.text) {
                    Ok(objects) => {
                        let objects = objects.into_iter().map(|object| within(object, default));
                        found.lost.extend(objects.filter_map(|object| LostObject::new(&object)));
                    }
                    Err(error) => {
                        let place = format!("{file}: document {}", document.number);
                        found
                            .errors
                            .push(unrendered::unreadable(error.into(), &document).context(place));
                    }
                }
            }
        }
        found.lost.retain(|it| {
            let applies = it.namespace == root && applies_from_root(it.kind());
            namespace.is_empty() || it.namespace == namespace || applies
        });
        found.lost.sort();
        found
    }
}

/// Sets the namespace of an object that has none.
fn within(mut object: Value, namespace: &str) -> Value {
    if object["metadata"].is_object() && object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

fn summary(lost: &[LostObject]) -> String {
    let policies = lost.iter().filter(|it| it.access == Access::Opens).count();
    match lost.len() {
        0 => "no object of Istio's kinds loses its effect".to_owned(),
        all => {
            format!("objects that lose their effect: {all}, of which {policies} restrict access")
        }
    }
}

const HEADER: &[&str] = &["KIND", "NAME", "WITHOUT IT"];

const EXAMPLES: &str = "\
Examples:
  istioctl x precheck -n shop
  istioctl x precheck -f manifests/ -o json";
