//! Reconciliation of the Secret and the webhook configurations with the API server.

mod api;
mod call_error;
mod clock;
mod content;
mod contention;
pub mod csr;
mod csr_reconciler;
mod entries;
mod event_recorder;
pub(crate) mod events;
mod forbidden;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod mounted_reconciler;
mod probe_entry;
mod probe_result;
mod prober;
mod publication;
mod reconciler;
mod reporting;
mod root_config_maps;
mod server_time;
mod watched_object;
mod writes;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{join, join3, ready};
use futures::stream::select;
use kube::Client;
use tokio::sync::{Notify, watch};

use crate::bundle::TrustedCa;
pub use crate::options::{ForeignCa, Options, Parameters};
use crate::rotation::{Observation, Revocation};
use crate::secret::rotation_requests::{
    REVOKE, ROTATE, ROTATE_NOW, RevocableError, RotationRequests, revocable,
};
use crate::secret::{SecretError, State};
use crate::server_names::ServerNamesError;
use crate::serving::ServingCertificate;
use crate::status::Status;
use crate::workload::authority::WorkloadAuthority;
use crate::workload::ca_folder::CaFolder;
use api::ClusterApi;
pub use call_error::{CallError, CallErrorCause};
use csr_reconciler::CsrReconciler;
use mounted_reconciler::MountedReconciler;
use reconciler::Reconciler;

/// Keeps the Secret, the served leaf and every managed `caBundle` valid for as long as it is
/// polled.
///
/// Returns only if the options make a certificate impossible. Errors of the API server are logged,
/// reported in `status` and tried again; the served certificate stays. Any number of replicas may
/// run at once, without a leader.
pub async fn maintain(
    client: Client,
    options: Options,
    certificate: Arc<ServingCertificate>,
    status: watch::Sender<Status>,
) -> Result<Infallible, CertificateError> {
    Box::pin(run(client, options, certificate, status, None)).await
}

/// Receives the CA that signs for workloads.
pub type AuthoritySender = watch::Sender<Option<Arc<WorkloadAuthority>>>;

/// Like [`maintain`], for a CA that signs certificates of workloads too. They verify the served
/// leaf by [`Options::root_config_maps`].
///
/// `mounted` is a folder with the files of an operator's CA, which then signs instead of the
/// Secret's one.
pub async fn maintain_workload_authority(
    client: Client,
    options: Options,
    mounted: Option<CaFolder>,
    certificate: Arc<ServingCertificate>,
    status: watch::Sender<Status>,
    authority: AuthoritySender,
) -> Result<Infallible, CertificateError> {
    let Some(folder) = mounted else {
        return Box::pin(run(client, options, certificate, status, Some(authority))).await;
    };
    let names = options.names().map_err(CertificateError::Names)?;
    let mut api = ClusterApi::new(client, options.clone());
    let changed = Notify::new();
    let changes = api.follow_roots();
    let changes = pin!(changes.for_each(|()| {
        changed.notify_one();
        ready(())
    }));
    let mut reconciler =
        MountedReconciler::new(&api, &options, folder, names, &certificate, status, authority);
    let never = join(Box::pin(reconciler.run(&changed)), changes).await;
    match never.0 {}
}

async fn run(
    client: Client,
    options: Options,
    certificate: Arc<ServingCertificate>,
    status: watch::Sender<Status>,
    workloads: Option<AuthoritySender>,
) -> Result<Infallible, CertificateError> {
    let names = options.names().map_err(CertificateError::Names)?;
    if let Some(signer) = options.signer.as_ref().filter(|signer| signer.is_of_kubernetes()) {
        return Err(CertificateError::Signer { name: signer.name.clone() });
    }
    let mut api = ClusterApi::new(client, options.clone());
    let changed = Notify::new();
    let roots = api.follow_roots();
    let changes = pin!(select(api.changes(), roots).for_each(|()| {
        changed.notify_one();
        ready(())
    }));
    let (probed, probes) = watch::channel(None);
    let probing = async {
        if options.parameters.trust_probe {
            match prober::run(&api, &options, &probed, &changed).await {}
        }
        std::future::pending::<()>().await;
    };
    let reconciling = async {
        if let Some(signer) = &options.signer {
            let (options, certificate) = (&options, &certificate);
            let mut reconciler =
                CsrReconciler::new(&api, options, signer, names, certificate, probes, status);
            match Box::pin(reconciler.run(&changed)).await {}
        }
        let mut reconciler =
            Reconciler::new(&api, &options, names, &certificate, probes, status, workloads);
        match Box::pin(reconciler.run(&changed)).await {}
    };
    // Watches restart themselves; even without them, the ticks would go on.
    let never = join3(reconciling, probing, changes).await;
    match never.0 {}
}

/// Waits for a change, at most for `pause`. Changes that arrive together are handled together.
async fn wait(changed: &Notify, pause: Duration) {
    tokio::time::sleep(SPACING).await;
    tokio::select! {
        () = changed.notified() => {}
        () = tokio::time::sleep(pause) => {}
    }
}

/// Reads the Secret and the webhook configurations once and changes nothing.
pub async fn observe(client: Client, options: &Options) -> Result<Observation, CallError> {
    let api = ClusterApi::new(client, options.clone());
    let secret = api.secret().await?;
    let configurations = api.configurations().await.into_iter().collect::<Result<_, _>>()?;
    let clock_ahead = api.clock.ahead().unwrap_or_default();
    Ok(Observation {
        secret,
        configurations,
        is_complete: true,
        clock_ahead,
        ..Observation::default()
    })
}

/// Request to the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationRequest {
    /// Replace the signing CA.
    Rotation,
    /// Revoke the CA with the number, or the signing one.
    Revocation(Option<u64>),
}

/// Requests a rotation or a revocation. Returns the CA that it affects, and the pending revocation
/// if there is one.
pub async fn rotate(
    client: Client,
    options: &Options,
    request: RotationRequest,
) -> Result<(TrustedCa, Option<Revocation>), RotateError> {
    let api = ClusterApi::new(client, options.clone());
    let mut secret = api.secret().await?.ok_or_else(|| RotateError::NoSecret {
        name: format!("{}/{}", options.namespace, options.secret_name),
    })?;
    let state = State::parse(&secret)?;
    let (ca, annotation, value) = match request {
        RotationRequest::Rotation => (state.active.ca(), ROTATE, ROTATE_NOW.to_owned()),
        RotationRequest::Revocation(number) => {
            let (_, ca) = revocable(&state, number)?;
            (ca, REVOKE, RotationRequests::from_secret(&secret).revoking(ca))
        }
    };
    api.annotate_secret(&secret, annotation, &value).await?;
    let annotations = secret.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation.to_owned(), value);
    let pending = Revocation::pending(&secret, &state, &options.parameters, api.clock.now());
    let revocation = pending.into_iter().find(|revocation| revocation.authority == ca.name());
    Ok((ca.clone(), revocation.filter(|_| request != RotationRequest::Rotation)))
}

/// Reason for which a rotation cannot be requested.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    /// A call to the API server failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The Secret is missing.
    #[error(
        "Secret {name} does not exist; hint: replicas create it when they start; check \
         --namespace, --revision and --secret-name"
    )]
    NoSecret {
        /// Namespace and name of the Secret.
        name: String,
    },
    /// The Secret holds no CA; replicas will make one.
    #[error("the Secret cannot be used: {0}")]
    Secret(#[from] SecretError),
    /// The CA to revoke is unknown or ambiguous.
    #[error(transparent)]
    Revocable(#[from] RevocableError),
}

/// Reason for which no certificate can be maintained.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A name in the options cannot be in a certificate.
    #[error("the leaf's names, from service, namespace, cluster domain and extra names: {0}")]
    Names(#[source] ServerNamesError),
    /// The signer does not sign for webhooks.
    #[error(
        "--signer-name `{name}`: Kubernetes' own signers sign only for nodes and for clients of \
         the API server; hint: name a signer that the cluster's operator runs, or omit --cert-mode"
    )]
    Signer {
        /// Name of the signer.
        name: String,
    },
}

/// Time for which further changes are gathered, and minimum pause between reconciliations.
const SPACING: Duration = Duration::from_millis(100);
