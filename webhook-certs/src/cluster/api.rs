//! Calls to the API server, each with a timeout and the name of its object.

use std::time::Duration;

use futures::stream::{self, Stream, StreamExt, select_all};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};

use super::call_error::{APPROVAL, CallError, CallErrorCause, REQUESTS};
use super::entries::{bundle_patch, managed};
use super::probe_entry::{probe_entries, probe_labels};
use super::probe_result::{PROBE_ENTRY, ProbeTarget};
use super::root_config_maps::{RootConfigMaps, Snapshot};
use super::server_time::ServerClock;
use crate::options::{Options, Signer};
use crate::rotation::{BundlePatch, Configuration};

/// Calls about the objects that the options name.
///
/// Lists and watches have a field selector on the name, because a rule with `resourceNames` allows
/// them only with it.
pub(super) struct ClusterApi {
    pub(super) clock: ServerClock,
    /// Roots of workloads, where they are published.
    pub(super) roots: Option<RootConfigMaps>,
    client: Client,
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
    options: Options,
}

impl ClusterApi {
    pub(super) fn new(client: Client, options: Options) -> Self {
        let clock = ServerClock::default();
        let client = clock.read_by(client);
        Self {
            clock,
            secrets: Api::namespaced(client.clone(), &options.namespace),
            configurations: Api::all(client.clone()),
            roots: None,
            client,
            options,
        }
    }

    /// Starts to publish roots of workloads, if the options say so. The stream notifies of changes.
    pub(super) fn follow_roots(&mut self) -> impl Stream<Item = ()> + use<> {
        let followed =
            self.options.root_config_maps.then(|| RootConfigMaps::new(&self.client, &self.options));
        let (roots, changes) = followed.unzip();
        self.roots = roots;
        stream::iter(changes).flatten()
    }

    /// Published roots of workloads; `None` where they are not published, or not listed yet.
    pub(super) fn roots(&self, errors: &mut Vec<String>) -> Option<Snapshot> {
        self.roots.as_ref().and_then(|roots| roots.snapshot(errors))
    }

    pub(super) async fn secret(&self) -> Result<Option<Secret>, CallError> {
        let call = self.secrets.get_opt(&self.options.secret_name);
        self.within("get", self.secret_path(), call).await
    }

    pub(super) async fn create_secret(&self, secret: &Secret) -> Result<(), CallError> {
        let parameters = self.post_parameters();
        let call = self.secrets.create(&parameters, secret);
        self.within("create", self.secret_path(), call).await.map(drop)
    }

    /// Replaces the Secret if it still has the resource version of `secret`.
    pub(super) async fn replace_secret(&self, secret: &Secret) -> Result<(), CallError> {
        let parameters = self.post_parameters();
        let call = self.secrets.replace(&self.options.secret_name, &parameters, secret);
        self.within("update", self.secret_path(), call).await.map(drop)
    }

    /// Sets an annotation of the Secret if it was not changed since it was read.
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
        self.within("update", self.secret_path(), call).await.map(drop)
    }

    /// Reads the existing webhook configurations and returns their managed entries.
    pub(super) async fn configurations(&self) -> Vec<Result<Configuration, CallError>> {
        let found = self.whole_configurations().await.into_iter();
        found
            .filter_map(|found| {
                found.map(|configuration| managed(configuration, &self.options)).transpose()
            })
            .collect()
    }

    /// Like [`Self::configurations`], with errors appended to `errors`.
    pub(super) async fn readable_configurations(
        &self,
        errors: &mut Vec<String>,
    ) -> Vec<Configuration> {
        let found = self.configurations().await.into_iter();
        found
            .filter_map(|found| found.map_err(|error| errors.push(error.to_string())).ok())
            .collect()
    }

    async fn whole_configurations(&self) -> Vec<Result<MutatingWebhookConfiguration, CallError>> {
        let mut found = Vec::new();
        for name in &self.options.webhook_configurations {
            let call = self.configurations.get_opt(name);
            found.extend(self.within("get", configuration_path(name), call).await.transpose());
        }
        found
    }

    /// Applies bundles, and no other field, to the object with the given `uid` and resource
    /// version. Returns the new generation.
    pub(super) async fn publish(&self, patch: &BundlePatch) -> Result<i64, CallError> {
        let name = &patch.name;
        let parameters = PatchParams::apply(&self.options.field_manager()).force();
        let patch = Patch::Apply(bundle_patch(patch));
        let call = self.configurations.patch(name, &parameters, &patch);
        let published = self.within("patch", configuration_path(name), call).await?;
        Ok(published.metadata.generation.unwrap_or_default())
    }

    /// Stream of change notifications, without content: every decision uses a fresh read.
    pub(super) fn changes(&self) -> impl Stream<Item = ()> + use<> {
        let secrets: Api<PartialObjectMeta<Secret>> =
            Api::namespaced(self.client.clone(), &self.options.namespace);
        // With a signer of the cluster there is no Secret, and no right to watch one.
        let secret = self.options.signer.is_none().then(|| {
            watcher(secrets, pinned(&self.options.secret_name))
                .default_backoff()
                .map(|event| noted(event.map(drop)))
                .boxed()
        });
        let configurations = self.options.webhook_configurations.iter().map(|name| {
            let api: Api<PartialObjectMeta<MutatingWebhookConfiguration>> =
                Api::all(self.client.clone());
            watcher(api, pinned(name)).default_backoff().map(|event| noted(event.map(drop))).boxed()
        });
        select_all(configurations.chain(secret))
    }

    pub(super) fn secret_path(&self) -> String {
        format!("secrets/{} in namespace {}", self.options.secret_name, self.options.namespace)
    }

    pub(super) fn events_path(&self) -> String {
        format!("events in namespace {}", self.options.namespace)
    }

    pub(super) async fn create_event(&self, event: &Event) -> Result<(), CallError> {
        let events = Api::namespaced(self.client.clone(), &self.options.namespace);
        let parameters = self.post_parameters();
        let call = events.create(&parameters, event);
        self.within("create", self.events_path(), call).await.map(drop)
    }

    /// Finds the webhook entries that review the trust probe; an inner error says what is wrong
    /// with the configurations.
    pub(super) async fn probe_target(&self) -> Result<Result<ProbeTarget, String>, CallError> {
        let (mut entries, mut problems, mut without) = (Vec::new(), Vec::new(), Vec::new());
        for found in self.whole_configurations().await {
            let found = found?;
            let path = configuration_path(found.metadata.name.as_deref().unwrap_or_default());
            let before = (entries.len(), problems.len());
            for entry in probe_entries(&found, &self.options) {
                match entry {
                    Ok(entry) => entries.push(entry),
                    Err(wrong) => problems.push(format!("{path}: {wrong}")),
                }
            }
            if before == (entries.len(), problems.len()) {
                without.push(path);
            }
        }
        if !entries.is_empty() {
            let Options { service, namespace, .. } = &self.options;
            return Ok(Ok(ProbeTarget { entries, host: format!("{service}.{namespace}.svc") }));
        }
        Ok(Err(match (problems.as_slice(), without.as_slice()) {
            ([], []) => "there is no webhook configuration".to_owned(),
            ([], without) => format!(
                "{}: no entry of this revision that calls its Service begins with `{PROBE_ENTRY}`",
                without.join(", ")
            ),
            (problems, _) => problems.join("; "),
        }))
    }

    /// Creates the object of the trust probe, as a dry run.
    pub(super) async fn create_probe(&self) -> Result<(), CallError> {
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), &self.options.namespace);
        let map = ConfigMap {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-trust-probe-", self.options.install)),
                labels: Some(probe_labels(&self.options)),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        let parameters = PostParams { dry_run: true, ..self.post_parameters() };
        let limit = self.options.parameters.call_timeout + LONGEST_WEBHOOK;
        let object = format!("configmaps in namespace {}", self.options.namespace);
        within(limit, "create", object, maps.create(&parameters, &map)).await.map(drop)
    }

    pub(super) async fn create_signing_request(
        &self,
        signer: &Signer,
        pem: &str,
    ) -> Result<CertificateSigningRequest, CallError> {
        let Options { install, namespace, parameters, .. } = &self.options;
        let seconds = parameters.leaf_lifetime.as_secs().max(SHORTEST_SIGNED);
        let request = CertificateSigningRequest {
            metadata: ObjectMeta {
                generate_name: Some(format!("{install}-{namespace}-")),
                ..ObjectMeta::default()
            },
            spec: CertificateSigningRequestSpec {
                request: k8s_openapi::ByteString(pem.as_bytes().to_vec()),
                signer_name: signer.name.clone(),
                usages: Some(["digital signature", "server auth"].map(str::to_owned).into()),
                expiration_seconds: i32::try_from(seconds).ok(),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        };
        let (requests, parameters) = (self.requests(), self.post_parameters());
        let call = requests.create(&parameters, &request);
        self.within("create", REQUESTS.to_owned(), call).await
    }

    /// Approves a request if it was not changed since it was read.
    pub(super) async fn approve_signing_request(
        &self,
        mut request: CertificateSigningRequest,
    ) -> Result<(), CallError> {
        let name = request.metadata.name.clone().unwrap_or_default();
        let approved = CertificateSigningRequestCondition {
            type_: "Approved".to_owned(),
            status: "True".to_owned(),
            reason: Some("ApprovedByRequester".to_owned()),
            message: Some("--approve-csr was given".to_owned()),
            ..CertificateSigningRequestCondition::default()
        };
        let status = request.status.get_or_insert_default();
        status.conditions.get_or_insert_default().push(approved);
        let (requests, parameters) = (self.requests(), self.post_parameters());
        let call = requests.replace_subresource("approval", &name, &parameters, &request);
        self.within("update", APPROVAL.to_owned(), call).await.map(drop)
    }

    pub(super) async fn signing_request(
        &self,
        name: &str,
    ) -> Result<Option<CertificateSigningRequest>, CallError> {
        let requests = self.requests();
        self.within("get", format!("{REQUESTS}/{name}"), requests.get_opt(name)).await
    }

    fn requests(&self) -> Api<CertificateSigningRequest> {
        Api::all(self.client.clone())
    }

    fn post_parameters(&self) -> PostParams {
        PostParams { field_manager: Some(self.options.field_manager()), ..PostParams::default() }
    }

    async fn within<T>(
        &self,
        verb: &'static str,
        object: String,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CallError> {
        within(self.options.parameters.call_timeout, verb, object, call).await
    }
}

/// The client retries some errors for minutes, so the timeout includes retries.
pub(super) async fn within<T>(
    limit: Duration,
    verb: &'static str,
    object: String,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    let cause = match tokio::time::timeout(limit, call).await {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(kube::Error::Api(status))) => {
            CallErrorCause::Rejected { code: status.code, message: status.message }
        }
        Ok(Err(source)) => CallErrorCause::Failed(Box::new(source)),
        Err(_) => CallErrorCause::TimedOut(limit),
    };
    Err(CallError { verb, object, cause })
}

/// Path of a webhook configuration in messages.
pub(super) fn configuration_path(name: &str) -> String {
    format!("mutatingwebhookconfigurations/{name}")
}

fn pinned(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}

fn noted(event: Result<(), watcher::Error>) {
    if let Err(error) = event {
        // The next reconciliation meets the same error and reports it.
        tracing::debug!(%error, "a watch was interrupted");
    }
}

/// Minimum that the API server accepts, in seconds.
const SHORTEST_SIGNED: i64 = 600;
/// Maximum of `timeoutSeconds` of a webhook in Kubernetes.
const LONGEST_WEBHOOK: Duration = Duration::from_secs(30);
