//! Changes of webhook configurations that set a tag.

use injector::analysis::overlaps::overlapping_entries;
use injector::istio::revision_tag::{DEFAULT, RevisionTag, deactivated};
use injector::kubernetes::webhook_configuration::HookConfiguration;
use serde_json::Value;

use super::cluster_state::ClusterState;

/// A tag that the user asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedTag<'a> {
    pub(super) name: &'a str,
    pub(super) revision: &'a str,
    /// Name of its webhook configuration; empty for the usual name.
    pub(super) webhook: &'a str,
    pub(super) inject_by_default: bool,
    pub(super) overwrite: bool,
    pub(super) control_plane: &'a str,
}

/// Webhook configurations that set a tag.
#[derive(Debug)]
pub(super) struct TagPlan {
    /// True if the tag exists.
    pub(super) exists: bool,
    /// Configuration of the tag.
    pub(super) configuration: Value,
    /// Changes to the configurations of the default revision, which the tag `default` replaces.
    pub(super) deactivated: Vec<Value>,
    /// Entries of other webhook configurations that would inject the same pods.
    pub(super) overlaps: Vec<String>,
}

impl TagPlan {
    /// Describes pods that would be injected twice.
    pub(super) fn caution(&self) -> Option<String> {
        let name = self.configuration["metadata"]["name"].as_str().unwrap_or_default();
        (!self.overlaps.is_empty()).then(|| {
            format!(
                "Caution, MutatingWebhookConfiguration {name} and {} would inject the same pods",
                self.overlaps.join(", ")
            )
        })
    }
}

/// A tag that cannot be set.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum TagError {
    #[error(
        "cannot create revision tag {0:?}: found existing control plane revision with same name"
    )]
    IsRevision(String),
    #[error(
        "revision tag {tag:?} already exists, and --overwrite is false; hint: with --overwrite, \
         it becomes a tag of revision {revision:?}"
    )]
    Exists { tag: String, revision: String },
    #[error(
        "cannot modify tag: cannot find MutatingWebhookConfiguration with revision \
         {revision:?}; hint: the revisions are {revisions}"
    )]
    NoRevision { revision: String, revisions: String },
    #[error(
        "revision {revision:?} is ambiguous: MutatingWebhookConfigurations {configurations} call \
         it; hint: remove those that are not in use"
    )]
    Ambiguous { revision: String, configurations: String },
    #[error("MutatingWebhookConfiguration {0} has no entry *.sidecar-injector.istio.io")]
    NoEntry(String),
    #[error(
        "revision tag {tag:?} has the MutatingWebhookConfiguration {existing}; hint: leave out \
         --webhook-name, or remove the tag first"
    )]
    OtherName { tag: String, existing: String },
    #[error(
        "MutatingWebhookConfiguration {0} exists and is not of tag {1:?}; hint: choose another \
         --webhook-name"
    )]
    NameInUse(String, String),
}

impl WantedTag<'_> {
    /// Returns the changes that set the tag.
    pub(super) fn plan(&self, state: &ClusterState) -> Result<TagPlan, TagError> {
        let Self { name, revision, .. } = *self;
        let is_default = name == DEFAULT;
        if !is_default && state.of_revision(name).next().is_some() {
            return Err(TagError::IsRevision(name.to_owned()));
        }
        if !self.overwrite && state.of_tag(name).next().is_some() {
            let (tag, revision) = (name.to_owned(), revision.to_owned());
            return Err(TagError::Exists { tag, revision });
        }
        let source = self.source(state)?;
        let existing = state.of_tag(name).next().map(|parsed| parsed.name.clone());
        let exists = existing.is_some();
        let webhook = match (self.webhook, existing) {
            ("", None) => self.usual_webhook(),
            ("", Some(existing)) => existing,
            (given, Some(existing)) if given != existing => {
                return Err(TagError::OtherName { tag: name.to_owned(), existing });
            }
            (given, _) => given.to_owned(),
        };
        let named = state.configurations.iter().find(|(parsed, _)| parsed.name == webhook);
        if named.is_some_and(|(parsed, _)| parsed.tag.as_deref() != Some(name)) {
            return Err(TagError::NameInUse(webhook, name.to_owned()));
        }
        let inject_by_default = self.inject_by_default;
        let tag = RevisionTag { name, webhook: &webhook, revision, inject_by_default };
        let source_name = || source["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let configuration =
            tag.configuration(source).ok_or_else(|| TagError::NoEntry(source_name()))?;
        let replaced = state.of_revision(DEFAULT).filter(|_| is_default);
        let deactivated: Vec<_> = replaced.filter_map(|(_, object)| deactivated(object)).collect();
        let changed: Vec<_> = deactivated.iter().chain([&configuration]).collect();
        let overlaps = new_overlaps(state, &changed, &webhook);
        Ok(TagPlan { exists, configuration, deactivated, overlaps })
    }

    /// Returns the webhook configuration of the revision.
    fn source<'a>(&'a self, state: &'a ClusterState) -> Result<&'a Value, TagError> {
        let revision = self.revision;
        let candidates: Vec<_> = state.of_revision(revision).collect();
        match &*candidates {
            [(_, source)] => Ok(source),
            [] => {
                let all = state.configurations.iter().map(|(parsed, _)| parsed);
                let untagged = all.filter(|parsed| parsed.tag.is_none());
                let mut revisions: Vec<_> =
                    untagged.map(|parsed| parsed.revision.as_str()).collect();
                revisions.sort_unstable();
                revisions.dedup();
                let revisions = match &*revisions {
                    [] => "none; no injector is installed".to_owned(),
                    revisions => revisions.join(", "),
                };
                Err(TagError::NoRevision { revision: revision.to_owned(), revisions })
            }
            several => {
                let names: Vec<_> =
                    several.iter().map(|(parsed, _)| parsed.name.as_str()).collect();
                let configurations = names.join(", ");
                Err(TagError::Ambiguous { revision: revision.to_owned(), configurations })
            }
        }
    }

    /// Returns Istio's name of the webhook configuration.
    fn usual_webhook(&self) -> String {
        let Self { name, control_plane, .. } = self;
        match *control_plane {
            "istio-system" => format!("istio-revision-tag-{name}"),
            namespace => format!("istio-revision-tag-{name}-{namespace}"),
        }
    }
}

/// Returns the entries of other configurations that would overlap with this one after the changes.
fn new_overlaps(state: &ClusterState, changed: &[&Value], webhook: &str) -> Vec<String> {
    let is_changed = |name: &str| changed.iter().any(|one| one["metadata"]["name"] == name);
    let kept = state.configurations.iter().map(|(parsed, _)| parsed);
    let kept = kept.filter(|parsed| !is_changed(&parsed.name)).cloned();
    // A deactivated configuration overlaps with none, so only that of the tag is added.
    let tag = changed.iter().filter(|one| one["metadata"]["name"] == webhook);
    let tag = tag.filter_map(|one| HookConfiguration::read(one).ok().flatten());
    let mut configurations: Vec<_> = kept.chain(tag).collect();
    configurations.sort_by(|one, other| one.name.cmp(&other.name));
    let overlaps = overlapping_entries(&configurations).remove(webhook);
    overlaps.into_iter().flatten().collect()
}
