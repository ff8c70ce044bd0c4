//! Webhook configurations and namespaces of a cluster, as far as they concern tags.

use std::collections::BTreeMap;

use anyhow::Context;
use injector::cluster::{hooks, namespaces};
use injector::istio::labels::REVISION;
use injector::istio::revision_tag::DEFAULT;
use injector::kubernetes::webhook_configuration::HookConfiguration;
use kube::Client;
use serde_json::Value;

use crate::Streams;

/// Webhook configurations of injectors, and the labels of namespaces.
#[derive(Debug, Default)]
pub(super) struct ClusterState {
    /// Parsed and stored configurations, sorted by name.
    pub(super) configurations: Vec<(HookConfiguration, Value)>,
    /// Labels of the namespaces by name.
    pub(super) namespaces: BTreeMap<String, Value>,
}

impl ClusterState {
    pub(super) async fn read(client: &Client, streams: &mut Streams<'_>) -> anyhow::Result<Self> {
        let objects = hooks::objects(client.clone()).await;
        let mut state = Self::default();
        for object in objects.context("listing mutatingwebhookconfigurations")? {
            match HookConfiguration::read(&object) {
                Ok(Some(parsed)) => state.configurations.push((parsed, object)),
                Ok(None) => {}
                Err(error) => streams.say(&format!("warning: {error}; it is ignored")),
            }
        }
        let namespaces = namespaces::labels(client.clone()).await;
        state.namespaces = namespaces.context("listing namespaces")?;
        Ok(state)
    }

    /// Returns the webhook configurations of a tag.
    pub(super) fn of_tag<'a>(
        &'a self,
        tag: &'a str,
    ) -> impl Iterator<Item = &'a HookConfiguration> {
        let parsed = self.configurations.iter().map(|(parsed, _)| parsed);
        parsed.filter(move |parsed| parsed.tag.as_deref() == Some(tag))
    }

    /// Returns the webhook configurations of a revision, without those of its tags.
    pub(super) fn of_revision<'a>(
        &'a self,
        revision: &'a str,
    ) -> impl Iterator<Item = &'a (HookConfiguration, Value)> {
        let of_revision =
            move |parsed: &HookConfiguration| parsed.tag.is_none() && parsed.revision == revision;
        self.configurations.iter().filter(move |(parsed, _)| of_revision(parsed))
    }

    /// Returns the namespaces whose pods the tag injects by the namespace's labels.
    pub(super) fn namespaces_of(&self, tag: &str) -> Vec<&str> {
        let uses = |labels: &Value| match labels["istio-injection"].as_str() {
            Some(injection) => tag == DEFAULT && injection == "enabled",
            None => labels[REVISION] == tag,
        };
        let using = self.namespaces.iter().filter(|(_, labels)| uses(labels));
        using.map(|(name, _)| name.as_str()).collect()
    }
}
