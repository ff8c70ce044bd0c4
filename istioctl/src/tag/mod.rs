//! `istioctl tag`: revision tags, which are second names of revisions.

mod change;
mod cluster_state;
mod list;
mod plan;

use clap::{Args, Subcommand};

use crate::cluster::ClusterClient;
use crate::{Failure, Streams};
use change::{GenerateTag, RemoveTag, SetTag};
use list::ListTags;

/// Manage revision tags, which are second names of revisions
///
/// Namespaces and pods with the label istio.io/rev=TAG are injected by the revision of the tag. To
/// move them to another revision, set the tag; no label has to change. The tag `default` also
/// stands for the labels istio-injection=enabled and sidecar.istio.io/inject=true.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Tag {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Set(SetTag),
    Generate(GenerateTag),
    #[command(visible_alias = "show")]
    List(ListTags),
    #[command(visible_alias = "delete")]
    Remove(RemoveTag),
}

impl Tag {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        match &self.command {
            Command::Set(command) => command.run(cluster_client, streams),
            Command::Generate(command) => command.run(cluster_client, streams),
            Command::List(command) => command.run(cluster_client, streams),
            Command::Remove(command) => command.run(cluster_client, streams),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  istioctl tag set prod --revision 1-28
  istioctl tag set prod --revision 1-29 --overwrite
  istioctl tag generate default --revision 1-29 > tag.yaml
  istioctl tag list
  istioctl tag remove prod";
