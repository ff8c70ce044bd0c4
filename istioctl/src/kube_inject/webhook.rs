//! Revision and path of a cluster's injector, from its webhook configurations.

use anyhow::Context;
use injector::cluster::hooks;
use injector::istio::webhook_path;
use injector::kubernetes::webhook_configuration::HookConfiguration;
use kube::Client;

use super::cluster_state::or_warning;
use crate::Streams;

/// Revision and path environment of a cluster's injector.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Webhook {
    /// The injector's revision; empty or `default` for the one without a name.
    pub(super) revision: String,
    /// The webhook configuration that makes this the default revision, if any.
    pub(super) tagged_by: Option<String>,
    /// The proxy's environment from the webhook's path.
    pub(super) path_env: Vec<(String, String)>,
}

impl Webhook {
    /// Returns the webhook of a revision. An empty revision means the default one: the one with the
    /// tag `default`, else the one without a name.
    pub(super) async fn of_cluster(
        client: &Client,
        control_plane: &str,
        revision: &str,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Self> {
        let read = hooks::all(client.clone()).await;
        let Some((configurations, wrong)) = or_warning(read, WHAT, WITHOUT, streams)? else {
            return Ok(Self { revision: revision.to_owned(), ..Self::default() });
        };
        for error in wrong {
            streams.say(&format!("warning: {error}; it is ignored"));
        }
        Self::among(&configurations, control_plane, revision)
    }

    fn among(
        configurations: &[HookConfiguration],
        control_plane: &str,
        revision: &str,
    ) -> anyhow::Result<Self> {
        let ours: Vec<_> = configurations.iter().filter(|one| is_of(control_plane, one)).collect();
        let is_default = |one: &&HookConfiguration| one.tag.as_deref() == Some(DEFAULT);
        let tagged = ours.iter().copied().filter(|_| revision.is_empty()).find(is_default);
        let revision = tagged.map_or(revision, |tagged| &tagged.revision);
        let name = if revision.is_empty() { DEFAULT } else { revision };
        let paths = ours.iter().filter(|one| one.revision == name);
        let mut paths = paths.filter_map(|one| Some((&one.name, &one.hooks.first()?.path)));
        let path_env = paths.next().map(|(configuration, path)| {
            let read = webhook_path::environment(path);
            read.with_context(|| format!("MutatingWebhookConfiguration {configuration}"))
        });
        Ok(Self {
            revision: revision.to_owned(),
            tagged_by: tagged.map(|tagged| tagged.name.clone()),
            path_env: path_env.transpose()?.unwrap_or_default(),
        })
    }
}

/// True if a configuration may call the injector of this control plane. The owner of a webhook at a
/// URL is unknown, so it may.
fn is_of(control_plane: &str, configuration: &HookConfiguration) -> bool {
    let mut namespaces = configuration.hooks.iter().map(|hook| hook.service_namespace.as_deref());
    namespaces.all(|namespace| namespace.is_none_or(|namespace| namespace == control_plane))
}

const DEFAULT: &str = "default";

const WHAT: &str = "mutatingwebhookconfigurations";
const WITHOUT: &str = "without them, the tag default and the proxy environment in the webhook's \
                       path have no effect";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a configuration with this name, these labels, this namespace of its Service, and
    /// this path.
    fn configuration(
        name: &str,
        [revision, tag]: [&str; 2],
        namespace: &str,
        path: &str,
    ) -> HookConfiguration {
        let configuration = json!({
            "metadata": {"name": name, "labels": {"istio.io/rev": revision, "istio.io/tag": tag}},
            "webhooks": [{
                "name": "rev.namespace.sidecar-injector.istio.io",
                "rules": [{"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods"]}],
                "clientConfig": {
                    "service": {"name": "istiod", "namespace": namespace, "path": path},
                },
            }],
        });
        HookConfiguration::read(&configuration).unwrap().unwrap()
    }

    #[test]
    fn default_revision_is_the_one_with_the_tag() {
        let plain = configuration("istio-sidecar-injector", ["default", "x"], "n", "/inject");
        let path = "/inject/cluster/c1/net/n1";
        let canary = configuration("istio-sidecar-injector-canary", ["canary", "x"], "n", path);
        let tag = configuration("istio-revision-tag-default", ["canary", "default"], "n", path);
        let found = |configurations: &[&HookConfiguration], control_plane, revision| {
            let configurations: Vec<_> = configurations.iter().copied().cloned().collect();
            let webhook = Webhook::among(&configurations, control_plane, revision).unwrap();
            (webhook.revision, webhook.tagged_by.is_some(), webhook.path_env.len())
        };
        let is = |revision: &str, tagged, variables| (revision.to_owned(), tagged, variables);
        assert_eq!(found(&[], "n", ""), is("", false, 0));
        assert_eq!(found(&[&canary, &plain], "n", ""), is("", false, 0));
        assert_eq!(found(&[&canary, &plain], "n", "canary"), is("canary", false, 2));
        let all = [&tag, &canary, &plain];
        assert_eq!(found(&all, "n", ""), is("canary", true, 2));
        // An explicit revision is used as it is, `default` included.
        assert_eq!(found(&all, "n", "default"), is("default", false, 0));
        assert_eq!(found(&all, "n", "stable"), is("stable", false, 0));
        assert_eq!(found(&all, "elsewhere", ""), is("", false, 0));
    }

    #[test]
    fn invalid_webhook_path_is_named() {
        let wrong = configuration("hooks", ["default", "x"], "n", "/inject/cluster/%ff");
        let error = Webhook::among(&[wrong], "n", "").unwrap_err();
        let expected = "MutatingWebhookConfiguration hooks: path \"/inject/cluster/%ff\"";
        assert!(format!("{error:#}").starts_with(expected), "{error:#}");
    }
}
