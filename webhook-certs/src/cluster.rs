//! The Secret and the webhook configurations in the API server.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kube::Client;
use tokio::sync::watch;

use crate::server_names::{ServerNames, ServerNamesError};
use crate::serving::ServingCertificate;
use crate::status::Status;

/// Which objects are kept up, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The namespace of the Secret and of the Service.
    pub namespace: String,
    /// The name of this installation; the CA and the field manager are called by it.
    pub install: String,
    /// The Service through which API servers reach the webhook.
    pub service: String,
    /// The cluster's DNS domain.
    pub cluster_domain: String,
    /// Further names and addresses of the leaf, for webhooks that are called by URL.
    pub extra_names: Vec<String>,
    /// The revision of the control plane; a configuration labelled `istio.io/rev` with another one
    /// is left alone.
    pub revision: String,
    /// The Secret that holds the CA.
    pub secret_name: String,
    /// The MutatingWebhookConfigurations whose `caBundle` is kept up; one that does not exist is
    /// waited for.
    pub webhook_configurations: Vec<String>,
    /// Lifetimes and intervals.
    pub parameters: Parameters,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: "istio-system".to_owned(),
            install: "sidecar-injector".to_owned(),
            service: "sidecar-injector".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            extra_names: Vec::new(),
            revision: "default".to_owned(),
            secret_name: "sidecar-injector-ca".to_owned(),
            webhook_configurations: vec!["istio-sidecar-injector".to_owned()],
            parameters: Parameters::default(),
        }
    }
}

/// Lifetimes of certificates and intervals of the upkeep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// How long a new CA is valid.
    pub authority_lifetime: SignedDuration,
    /// How long a new leaf is valid; it is renewed at half of that.
    pub leaf_lifetime: SignedDuration,
    /// How long a CA in `caBundle` that the Secret does not know is kept after it was first seen.
    pub foreign_grace: SignedDuration,
    /// How often everything is looked at without an event.
    pub tick: Duration,
    /// How long one call to the API server may take.
    pub call_timeout: Duration,
    /// How many writes to one object may follow each other at once.
    pub write_burst: u32,
    /// How often a further write to that object is allowed.
    pub write_interval: SignedDuration,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            authority_lifetime: SignedDuration::from_hours(365 * 24),
            leaf_lifetime: SignedDuration::from_hours(7 * 24),
            foreign_grace: SignedDuration::from_hours(7 * 24 + 1),
            tick: Duration::from_secs(30),
            call_timeout: Duration::from_secs(10),
            write_burst: 5,
            write_interval: SignedDuration::from_secs(30),
        }
    }
}

/// Keeps the Secret, the served leaf and every managed `caBundle` right, for as long as it is
/// polled.
///
/// It returns only when the options make no certificate possible. What the API server refuses or
/// cannot do is logged, told in `status` and tried again; the certificate that is served stays.
pub async fn maintain(
    client: Client,
    options: Options,
    certificate: Arc<ServingCertificate>,
    status: watch::Sender<Status>,
) -> Result<Infallible, CertificateError> {
    let names = ServerNames::of_service(
        &options.service,
        &options.namespace,
        &options.cluster_domain,
        &options.extra_names,
    )
    .map_err(CertificateError::Names)?;
    let _ = (client, certificate, status, names);
    std::future::pending().await
}

/// Why no certificate can be kept up.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The options give a name that no certificate can carry.
    #[error("the leaf's names, made of service, namespace, cluster domain and extra names: {0}")]
    Names(#[source] ServerNamesError),
}
