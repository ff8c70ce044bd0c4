//! The calls to the API server: each has a time limit, and names the object that it is about.

use std::time::Duration;

use futures::stream::{Stream, StreamExt, select_all};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, ServiceReference,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::json;

use crate::bundle::Bundle;
use crate::cause::with_causes;
use crate::options::Options;
use crate::rotation::{Configuration, Entry};

/// The Secret and the webhook configurations that the options name, and nothing else.
///
/// Lists and watches carry a field selector on the name, because a rule that is pinned by
/// `resourceNames` allows them only then.
pub(super) struct Objects {
    client: Client,
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
    options: Options,
}

impl Objects {
    pub(super) fn new(client: Client, options: Options) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &options.namespace),
            configurations: Api::all(client.clone()),
            client,
            options,
        }
    }

    pub(super) async fn secret(&self) -> Result<Option<Secret>, CallError> {
        let call = self.secrets.get_opt(&self.options.secret_name);
        self.within("get", self.secret_path(), call).await
    }

    pub(super) async fn create_secret(&self, secret: &Secret) -> Result<(), CallError> {
        let parameters = self.post_parameters();
        let call = self.secrets.create(&parameters, secret);
        self.within("create", self.secret_path(), call).await?;
        Ok(())
    }

    /// Replaces the Secret if it still has the resource version that `secret` carries.
    pub(super) async fn replace_secret(&self, secret: &Secret) -> Result<(), CallError> {
        let parameters = self.post_parameters();
        let call = self.secrets.replace(&self.options.secret_name, &parameters, secret);
        self.within("update", self.secret_path(), call).await?;
        Ok(())
    }

    /// Sets an annotation of the Secret that was read, unless somebody has changed it meanwhile.
    pub(super) async fn annotate_secret(
        &self,
        secret: &Secret,
        annotation: &str,
        value: &str,
    ) -> Result<(), CallError> {
        let mut secret = secret.clone();
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(annotation.to_owned(), value.to_owned());
        let parameters = PostParams::default();
        let call = self.secrets.replace(&self.options.secret_name, &parameters, &secret);
        self.within("update", self.secret_path(), call).await?;
        Ok(())
    }

    /// Reads a webhook configuration and picks the entries to keep up; none when it is absent.
    pub(super) async fn configuration(
        &self,
        name: &str,
    ) -> Result<Option<Configuration>, CallError> {
        let call = self.configurations.get_opt(name);
        let found = self.within("get", configuration_path(name), call).await?;
        Ok(found.and_then(|configuration| managed(configuration, &self.options)))
    }

    /// Applies bundles to entries of the very object that has `uid`, if it still is what
    /// `resource_version` says, and no other field. Returns the generation that this made.
    pub(super) async fn publish(
        &self,
        name: &str,
        (uid, resource_version): (&str, &str),
        entries: &[(String, Bundle)],
    ) -> Result<i64, CallError> {
        let parameters = PatchParams::apply(&self.options.field_manager()).force();
        let patch = Patch::Apply(bundle_patch(name, (uid, resource_version), entries));
        let call = self.configurations.patch(name, &parameters, &patch);
        let published = self.within("patch", configuration_path(name), call).await?;
        Ok(published.metadata.generation.unwrap_or_default())
    }

    /// Tells whenever one of the objects may have changed; never what it has become, since every
    /// decision rests on a fresh read.
    pub(super) fn changes(&self) -> impl Stream<Item = ()> + use<> {
        let secrets: Api<PartialObjectMeta<Secret>> =
            Api::namespaced(self.client.clone(), &self.options.namespace);
        let secret = watcher(secrets, pinned(&self.options.secret_name))
            .default_backoff()
            .map(|event| noted(event.map(drop)))
            .boxed();
        let configurations = self.options.webhook_configurations.iter().map(|name| {
            let api: Api<PartialObjectMeta<MutatingWebhookConfiguration>> =
                Api::all(self.client.clone());
            watcher(api, pinned(name)).default_backoff().map(|event| noted(event.map(drop))).boxed()
        });
        select_all(configurations.chain([secret]))
    }

    pub(super) fn secret_path(&self) -> String {
        format!("secrets/{} in namespace {}", self.options.secret_name, self.options.namespace)
    }

    fn post_parameters(&self) -> PostParams {
        PostParams { field_manager: Some(self.options.field_manager()), ..PostParams::default() }
    }

    /// The client itself retries some refusals for minutes, so the limit is around the whole.
    async fn within<T>(
        &self,
        verb: &'static str,
        object: String,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CallError> {
        let limit = self.options.parameters.call_timeout;
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(kube::Error::Api(status))) => {
                Err(CallError::Refused { verb, object, code: status.code, message: status.message })
            }
            Ok(Err(source)) => Err(CallError::Failed { verb, object, source: Box::new(source) }),
            Err(_) => Err(CallError::TimedOut { verb, object, limit }),
        }
    }
}

/// The path that messages name a webhook configuration by.
pub(super) fn configuration_path(name: &str) -> String {
    format!("mutatingwebhookconfigurations/{name}")
}

/// Why a call to the API server did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server answered that it will not.
    #[error("cannot {verb} {object}: {message}{}", hint(*code, verb))]
    Refused {
        /// The verb of the request.
        verb: &'static str,
        /// The object that it was about.
        object: String,
        /// The HTTP status.
        code: u16,
        /// What the API server says.
        message: String,
    },
    /// There was no answer that could be read.
    #[error("cannot {verb} {object}: {}", with_causes(source.as_ref()))]
    Failed {
        /// The verb of the request.
        verb: &'static str,
        /// The object that it was about.
        object: String,
        /// What the client says.
        source: Box<kube::Error>,
    },
    /// There was no answer in time.
    #[error("cannot {verb} {object}: no answer within {limit:?}")]
    TimedOut {
        /// The verb of the request.
        verb: &'static str,
        /// The object that it was about.
        object: String,
        /// How long was waited.
        limit: Duration,
    },
}

impl CallError {
    /// Tells whether somebody else was faster, so that a fresh look is all that is needed.
    ///
    /// Besides 409 that is 404 of an object that has gone, and 422 of one that was created anew
    /// under the same name (its `uid` may not change) or whose entry has gone (the rest of an
    /// entry may not be missing).
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Refused { verb, code, .. } => match *verb {
                "create" => *code == 409,
                "update" => matches!(code, 404 | 409),
                "patch" => matches!(code, 404 | 409 | 422),
                _ => false,
            },
            Self::Failed { .. } | Self::TimedOut { .. } => false,
        }
    }

    /// Tells whether the account may not do this, so that trying again soon is no use.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 403, .. })
    }
}

fn hint(code: u16, verb: &str) -> &'static str {
    match (code, verb) {
        (403, "patch") => {
            "; hint: allow it, or publish `ca.crt` of the Secret as caBundle by other means"
        }
        (403, _) => "; hint: the rules that are needed are in the RBAC of manifests/base",
        (404, "create") => "; hint: the namespace has to exist",
        _ => "",
    }
}

fn pinned(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}

fn noted(event: Result<(), watcher::Error>) {
    if let Err(error) = event {
        // The look that follows meets the same trouble, and tells it.
        tracing::debug!(%error, "a watch was interrupted");
    }
}

pub(super) fn bundle_patch(
    name: &str,
    (uid, resource_version): (&str, &str),
    entries: &[(String, Bundle)],
) -> serde_json::Value {
    let webhooks: Vec<_> = entries
        .iter()
        .map(|(entry, bundle)| {
            let bundle = k8s_openapi::ByteString(bundle.to_pem().into_bytes());
            json!({"name": entry, "clientConfig": {"caBundle": bundle}})
        })
        .collect();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name, "uid": uid, "resourceVersion": resource_version},
        "webhooks": webhooks,
    })
}

/// Picks the entries that call our Service, unless the object belongs to another revision.
pub(super) fn managed(
    configuration: MutatingWebhookConfiguration,
    options: &Options,
) -> Option<Configuration> {
    let MutatingWebhookConfiguration { metadata, webhooks } = configuration;
    let revision = metadata.labels.as_ref().and_then(|labels| labels.get(REVISION_LABEL));
    if revision.is_some_and(|revision| revision != options.revision()) {
        return None;
    }
    let entries = webhooks
        .unwrap_or_default()
        .into_iter()
        .filter(|webhook| is_ours(webhook, options))
        .map(|webhook| Entry {
            bundle: webhook
                .client_config
                .ca_bundle
                .map(|bundle| Bundle::observed(&bundle.0))
                .unwrap_or_default(),
            name: webhook.name,
        })
        .collect();
    Some(Configuration {
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        generation: metadata.generation.unwrap_or_default(),
        entries,
    })
}

/// An entry without rules is what another manager's removal has left of it.
fn is_ours(webhook: &MutatingWebhook, options: &Options) -> bool {
    let calls_us = |service: &ServiceReference| {
        service.name == options.service && service.namespace == options.namespace
    };
    webhook.client_config.service.as_ref().is_some_and(calls_us)
        && webhook.rules.as_ref().is_some_and(|rules| !rules.is_empty())
}

/// Istio's label for the revision that a webhook configuration belongs to.
const REVISION_LABEL: &str = "istio.io/rev";
