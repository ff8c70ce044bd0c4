//! Commands that set, print and remove a tag.

use std::io::{BufRead, BufReader};

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use documents::yaml;
use injector::cluster::error::ClusterError;
use injector::cluster::hooks;
use injector::istio::revision_tag::{DEFAULT, reactivated};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube_access::names;
use serde_json::{Value, json};

use super::cluster_state::ClusterState;
use super::plan::{TagPlan, WantedTag};
use crate::cluster::{Cluster, ClusterClient};
use crate::{Failure, Streams, cluster, output};

/// Create a revision tag, or move it to another revision
#[derive(Debug, Args)]
pub(super) struct SetTag {
    #[command(flatten)]
    tag: TagFlags,
    /// Set the tag without asking, even if another webhook injects the same pods
    #[arg(short = 'y', long)]
    skip_confirmation: bool,
    /// Output format
    #[arg(short, long, value_name = "FORM", value_enum, default_value = "text")]
    output: ChangeForm,
}

/// Form of the result of a change.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ChangeForm {
    Text,
    Json,
}

/// Print the webhook configuration of a revision tag as YAML, and change nothing
#[derive(Debug, Args)]
pub(super) struct GenerateTag {
    #[command(flatten)]
    tag: TagFlags,
    /// Accepted without effect
    #[arg(short = 'y', long, hide = true)]
    skip_confirmation: bool,
    /// Output format; JSON is a List
    #[arg(short, long, value_name = "FORM", value_enum, default_value = "yaml")]
    output: ObjectForm,
}

/// Form of Kubernetes objects.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ObjectForm {
    Yaml,
    Json,
}

/// Remove a revision tag
#[derive(Debug, Args)]
pub(super) struct RemoveTag {
    /// The tag
    #[arg(value_name = "TAG", value_parser = names::label)]
    tag: String,
    /// Remove the tag without asking, even if namespaces use it
    #[arg(short = 'y', long)]
    skip_confirmation: bool,
    /// Output format
    #[arg(short, long, value_name = "FORM", value_enum, default_value = "text")]
    output: ChangeForm,
}

#[derive(Debug, Args)]
struct TagFlags {
    /// The tag
    #[arg(value_name = "TAG", value_parser = names::label)]
    tag: String,
    /// The revision that the tag stands for
    #[arg(short, long, value_name = "REVISION", value_parser = names::label)]
    revision: String,
    /// Replace a tag that exists
    #[arg(long)]
    overwrite: bool,
    /// Name of the tag's webhook configuration [default: istio-revision-tag-TAG]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    webhook_name: String,
    /// With the tag `default`, inject also pods without labels in namespaces without labels
    #[arg(long)]
    auto_inject_namespaces: bool,
    /// Accepted without effect: the entries are those of the revision's webhook configuration
    #[arg(short = 'd', long, value_name = "PATH", hide = true)]
    manifests: Option<String>,
}

impl TagFlags {
    fn wanted<'a>(&'a self, control_plane: &'a str) -> WantedTag<'a> {
        WantedTag {
            name: &self.tag,
            revision: &self.revision,
            webhook: &self.webhook_name,
            inject_by_default: self.auto_inject_namespaces,
            overwrite: self.overwrite,
            control_plane,
        }
    }

    /// Returns the changes that set the tag.
    async fn plan(
        &self,
        client: &Client,
        control_plane: &str,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<TagPlan> {
        let state = ClusterState::read(client, streams).await?;
        Ok(self.wanted(control_plane).plan(&state)?)
    }
}

impl SetTag {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let applied = cluster::ask(cluster_client.flags, async |Cluster { client, name }| {
            let plan = self.tag.plan(&client, cluster_client.control_plane, streams).await;
            let plan = plan.context(name.clone())?;
            if let Some(caution) = plan.caution().filter(|_| !self.skip_confirmation)
                && !confirm(&caution, streams)?
            {
                bail!("revision tag {} is not set; hint: -y sets it without asking", self.tag.tag);
            }
            // A rejected change must leave the others undone.
            for dry_run in [true, false] {
                // Between the two, both inject, and the second injection changes nothing.
                for configuration in [&plan.configuration].into_iter().chain(&plan.deactivated) {
                    apply(&client, configuration, dry_run).await.context(name.clone())?;
                }
            }
            Ok(plan)
        });
        let plan = applied.map_err(Failure::from_error)?;
        let TagFlags { tag, revision, .. } = &self.tag;
        for configuration in &plan.deactivated {
            let title = title(name_of(configuration));
            streams.say(&format!("note: {title} is deactivated; tag {tag:?} replaces it"));
        }
        if plan.configuration["webhooks"][0]["clientConfig"]["caBundle"].is_null() {
            streams.say(
                "warning: the webhook of the revision has no caBundle yet, so the tag has none\n  \
                 hint: set the tag again with --overwrite when it has one",
            );
        }
        if self.tag.auto_inject_namespaces && tag != DEFAULT {
            streams.say(&format!(
                "warning: --auto-inject-namespaces has no effect on tag {tag:?}; hint: only the \
                 tag {DEFAULT} injects pods without labels"
            ));
        }
        let done = if plan.exists { "updated" } else { "created" };
        let text = match self.output {
            ChangeForm::Text => format!(
                "Revision tag {tag:?} {done}, referencing control plane revision {revision:?}. \
                 To enable injection using this\nrevision tag, use 'kubectl label namespace \
                 <NAMESPACE> istio.io/rev={tag}'\n"
            ),
            ChangeForm::Json => {
                let deactivated: Vec<_> = plan.deactivated.iter().map(name_of).collect();
                let webhook = name_of(&plan.configuration);
                let set = json!({
                    "tag": tag,
                    "revision": revision,
                    "webhook": webhook,
                    "deactivated": deactivated,
                });
                format!("{set:#}\n")
            }
        };
        output::write(streams.output, &text).map_err(Failure::from_error)
    }
}

impl GenerateTag {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let plan = cluster::ask(cluster_client.flags, async |Cluster { client, name }| {
            self.tag.plan(&client, cluster_client.control_plane, streams).await.context(name)
        });
        let plan = plan.map_err(Failure::from_error)?;
        if let Some(caution) = plan.caution() {
            streams.say(&caution);
        }
        let configurations: Vec<_> =
            [&plan.configuration].into_iter().chain(&plan.deactivated).collect();
        let text = match self.output {
            ObjectForm::Yaml => {
                let documents = configurations.iter().map(|configuration| {
                    yaml::to_string(configuration).map(|document| format!("---\n{document}"))
                });
                documents.collect::<Result<String, _>>().context("writing YAML")
            }
            ObjectForm::Json => {
                let list = json!({"apiVersion": "v1", "kind": "List", "items": configurations});
                Ok(format!("{list:#}\n"))
            }
        };
        let text = text.map_err(Failure::from_error)?;
        output::write(streams.output, &text).map_err(Failure::from_error)
    }
}

impl RemoveTag {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let Self { tag, .. } = self;
        let removed = cluster::ask(cluster_client.flags, async |Cluster { client, name }| {
            self.remove(&client, streams).await.context(name)
        });
        let webhooks = removed.map_err(Failure::from_error)?;
        let text = match self.output {
            ChangeForm::Text => format!("Revision tag {tag} removed\n"),
            ChangeForm::Json => format!("{:#}\n", json!({"tag": tag, "webhooks": webhooks})),
        };
        output::write(streams.output, &text).map_err(Failure::from_error)
    }

    /// Removes the tag. Returns the names of its webhook configurations.
    async fn remove(
        &self,
        client: &Client,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Vec<String>> {
        let Self { tag, .. } = self;
        let state = ClusterState::read(client, streams).await?;
        let configurations: Vec<_> = state.of_tag(tag).map(|parsed| parsed.name.clone()).collect();
        if configurations.is_empty() {
            bail!(
                "cannot remove tag {tag:?}: cannot find MutatingWebhookConfiguration for tag\n  \
                 hint: `tag list` shows the tags"
            );
        }
        let namespaces = state.namespaces_of(tag);
        if !namespaces.is_empty() && !self.skip_confirmation {
            let (count, names) = (namespaces.len(), namespaces.join(", "));
            let caution = format!(
                "Caution, found {count} namespace(s) still injected by tag {tag:?}: {names}"
            );
            if !confirm(&caution, streams)? {
                bail!("revision tag {tag} is not removed; hint: -y removes it without asking");
            }
        }
        let replaced: Vec<_> = state.of_revision(DEFAULT).filter(|_| tag == DEFAULT).collect();
        for (parsed, object) in replaced.iter().filter(|(parsed, _)| parsed.is_deactivated()) {
            let title = title(&parsed.name);
            if let Some(configuration) = reactivated(object) {
                apply(client, &configuration, false).await?;
                streams.say(&format!("note: {title} is active again"));
            } else {
                streams.say(&format!("note: {title} stays deactivated; install it again"));
            }
        }
        let api = hooks::api(client.clone());
        for name in &configurations {
            let deleted = api.delete(name, &DeleteParams::default()).await;
            deleted.map_err(ClusterError::from).with_context(|| title(name))?;
        }
        Ok(configurations)
    }
}

/// Asks the user to confirm a change.
fn confirm(caution: &str, streams: &mut Streams<'_>) -> anyhow::Result<bool> {
    // Without the question, the command would wait for no visible reason.
    streams.complain(&format!("{caution}\nProceed with operation? [y/N]"));
    let mut answer = String::new();
    BufReader::new(&mut *streams.input).read_line(&mut answer).context("standard input")?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}

/// Applies a configuration. The field manager takes over fields of others, such as selectors of a
/// deactivated configuration.
async fn apply(client: &Client, configuration: &Value, dry_run: bool) -> anyhow::Result<()> {
    let name = name_of(configuration);
    let parameters = PatchParams { dry_run, ..PatchParams::apply(MANAGER).force() };
    let api = hooks::api(client.clone());
    let applied = api.patch(name, &parameters, &Patch::Apply(configuration)).await;
    applied.map(drop).map_err(|error| {
        let rejected = if dry_run { "rejected by the API server" } else { "applying" };
        anyhow!(ClusterError::from(error)).context(format!("{}: {rejected}", title(name)))
    })
}

fn name_of(configuration: &Value) -> &str {
    configuration["metadata"]["name"].as_str().unwrap_or_default()
}

fn title(name: &str) -> String {
    format!("MutatingWebhookConfiguration {name}")
}

/// Field manager of server-side apply.
const MANAGER: &str = "istioctl-tag";
