//! The upkeep of the Secret and the webhook configurations in the API server.

mod answers;
mod call_error;
mod content;
mod entries;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod journal;
mod notices;
mod objects;
mod probe_entry;
mod prober;
mod publication;
mod refusals;
mod signed;
mod upkeep;
mod writes;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::{join3, ready};
use kube::Client;
use tokio::sync::{Notify, watch};

use crate::bundle::TrustedCa;
pub use crate::options::{ForeignCa, Options, Parameters};
use crate::requests::{REVOKE, ROTATE, ROTATE_NOW, Requests, RevocableError, revocable};
use crate::rotation::{Observation, Revocation};
use crate::secret::{SecretError, State};
use crate::server_names::ServerNamesError;
use crate::serving::ServingCertificate;
use crate::status::Status;
pub use call_error::CallError;
#[cfg(test)]
pub(crate) use content::empty_secret;
use notices::Notices;
use objects::Objects;
use signed::Signed;
use upkeep::Upkeep;
use writes::Writes;

/// Keeps the Secret, the served leaf and every managed `caBundle` right, for as long as it is
/// polled.
///
/// It returns only when the options make no certificate possible. What the API server refuses or
/// cannot do is logged, told in `status` and tried again; the certificate that is served stays.
/// Any number of replicas may do this at once, without a leader.
pub async fn maintain(
    client: Client,
    options: Options,
    certificate: Arc<ServingCertificate>,
    status: watch::Sender<Status>,
) -> Result<Infallible, CertificateError> {
    let names = options.names().map_err(CertificateError::Names)?;
    if let Some(signer) = options.signer.as_ref().filter(|signer| signer.is_of_kubernetes()) {
        return Err(CertificateError::Signer { name: signer.name.clone() });
    }
    let objects = Objects::new(client, options.clone());
    let changed = Notify::new();
    let changes = pin!(objects.changes().for_each(|()| {
        changed.notify_one();
        ready(())
    }));
    let (probed, probes) = watch::channel(None);
    let probing = async {
        if options.parameters.trust_probe {
            match prober::run(&objects, &options, &probed, &changed).await {}
        }
        std::future::pending::<()>().await;
    };
    let upkeep = async {
        if let Some(signer) = &options.signer {
            let mut signed = Signed {
                objects: &objects,
                options: &options,
                signer,
                names,
                certificate: &certificate,
                status,
                notices: Notices::new(&objects, &options, probes),
                writes: Writes::new(&options.parameters),
                pending: None,
                refusal: None,
                renew_at: None,
                bundle: None,
                foreign: BTreeMap::new(),
            };
            match Box::pin(signed.run(&changed)).await {}
        }
        let mut upkeep = Upkeep::new(&objects, &options, names, &certificate, probes, status);
        match Box::pin(upkeep.run(&changed)).await {}
    };
    // Watches restart themselves; were they to end, the ticks alone would carry on.
    let never = join3(upkeep, probing, changes).await;
    match never.0 {}
}

/// Looks at the Secret and the webhook configurations once, and changes nothing.
pub async fn observe(client: Client, options: &Options) -> Result<Observation, CallError> {
    let objects = Objects::new(client, options.clone());
    let secret = objects.secret().await?;
    let configurations = objects.configurations().await.into_iter().collect::<Result<_, _>>()?;
    let clock_ahead = objects.clock.ahead().unwrap_or_default();
    Ok(Observation { secret, configurations, is_complete: true, clock_ahead, probe: None })
}

/// What the replicas are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A new CA in the place of the one that signs.
    Rotation,
    /// The end of trust in the CA of that number, or in the one that signs.
    Revocation(Option<u64>),
}

/// Asks the replicas for a rotation or a revocation; returns the CA that it is about, and what
/// becomes of it where it is revoked.
pub async fn rotate(
    client: Client,
    options: &Options,
    wish: Wish,
) -> Result<(TrustedCa, Option<Revocation>), RotateError> {
    let objects = Objects::new(client, options.clone());
    let mut secret = objects.secret().await?.ok_or_else(|| RotateError::NoSecret {
        name: format!("{}/{}", options.namespace, options.secret_name),
    })?;
    let state = State::parse(&secret)?;
    let (ca, annotation, value) = match wish {
        Wish::Rotation => (state.active.ca(), ROTATE, ROTATE_NOW.to_owned()),
        Wish::Revocation(number) => {
            let (_, ca) = revocable(&state, number)?;
            (ca, REVOKE, Requests::read(&secret).revoking(ca))
        }
    };
    objects.annotate_secret(&secret, annotation, &value).await?;
    let annotations = secret.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation.to_owned(), value);
    let pending = Revocation::pending(&secret, &state, &options.parameters, objects.clock.now());
    let revocation = pending.into_iter().find(|revocation| revocation.authority == ca.name());
    Ok((ca.clone(), revocation.filter(|_| wish != Wish::Rotation)))
}

/// Why no rotation could be asked for.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    /// The API server did not do as it was asked.
    #[error(transparent)]
    Call(#[from] CallError),
    /// There is nothing to rotate.
    #[error(
        "there is no Secret {name}\nhint: replicas make it at their start; see --namespace, \
         --revision and --secret-name"
    )]
    NoSecret {
        /// Its namespace and name.
        name: String,
    },
    /// The Secret holds no CA; replicas make one.
    #[error("the Secret cannot be used: {0}")]
    Secret(#[from] SecretError),
    /// It is not known which CA is to be revoked.
    #[error(transparent)]
    Revocable(#[from] RevocableError),
}

/// Why no certificate can be kept up.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The options give a name that no certificate can carry.
    #[error("the leaf's names, made of service, namespace, cluster domain and extra names: {0}")]
    Names(#[source] ServerNamesError),
    /// The signer is none for webhooks.
    #[error(
        "--signer-name `{name}`: the signers of Kubernetes itself sign for nodes and for clients of \
         the API server, and refuse what a webhook needs; hint: name a signer of the cluster's \
         operator, or leave --cert-mode out"
    )]
    Signer {
        /// Its name.
        name: String,
    },
}
