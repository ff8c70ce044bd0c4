//! Certificates: the CA of workloads, the service that signs for them, and the server's own leaf.

mod metrics;
pub mod service;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use jiff::SignedDuration;
use kube::Client;
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::task::JoinSet;
use webhook_certs::cluster::{Options, Parameters, maintain_workload_authority};
use webhook_certs::serving::tls_parameters::TlsParameters;
use webhook_certs::serving::workload_clients::WorkloadClients;
use webhook_certs::serving::{HTTP_2, ServingCertificate, restricted_server_config};
use webhook_certs::status::Status;
use webhook_certs::workload::authority::WorkloadAuthority;
use webhook_certs::workload::ca_folder::CaFolder;

pub use self::metrics::{CA_METRICS, CertificateMetrics};
use crate::args::DiscoveryArgs;

/// The CA of workloads, kept up to date.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// CA that signs; `None` until it is known.
    pub authority: watch::Receiver<Option<Arc<WorkloadAuthority>>>,
    /// Result of the latest reconciliation.
    pub status: watch::Receiver<Status>,
    serving: Arc<ServingCertificate>,
    clients: Arc<WorkloadClients>,
}

impl Certificates {
    /// Starts the reconciliation of the CA, its roots, and the server's leaf.
    pub fn start(client: Client, args: &DiscoveryArgs, tasks: &mut JoinSet<Result<()>>) -> Self {
        let folder = CaFolder::find(&args.certificates.ca_folder);
        Self::maintain(client, options(args), folder, tasks)
    }

    /// Starts the reconciliation with its options.
    pub fn maintain(
        client: Client,
        options: Options,
        mounted: Option<CaFolder>,
        tasks: &mut JoinSet<Result<()>>,
    ) -> Self {
        let serving = ServingCertificate::new();
        let clients = WorkloadClients::new();
        let (status_sender, status) = watch::channel(Status::default());
        let (sender, authority) = watch::channel(None);
        let maintained = Arc::clone(&serving);
        tasks.spawn(async move {
            let maintaining = maintain_workload_authority(
                client,
                options,
                mounted,
                maintained,
                status_sender,
                sender,
            );
            match Box::pin(maintaining).await.context("the server's own certificate")? {}
        });
        tasks.spawn(verify_clients(authority.clone(), Arc::clone(&clients)));
        Self { authority, status, serving, clients }
    }

    /// TLS of the gRPC listener. Handshakes fail until there is a leaf.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        restricted_server_config(
            Arc::clone(&self.serving),
            &TlsParameters::default(),
            Some(Arc::clone(&self.clients) as _),
            &[HTTP_2],
        )
    }

    /// True if the server can serve and sign.
    pub fn is_ready(&self) -> bool {
        self.authority.borrow().is_some() && self.serving.is_valid_at(jiff::Timestamp::now())
    }
}

/// Verifies clients by the roots of the CA that signs.
async fn verify_clients(
    mut authorities: watch::Receiver<Option<Arc<WorkloadAuthority>>>,
    clients: Arc<WorkloadClients>,
) -> Result<()> {
    loop {
        let authority = authorities.borrow_and_update().clone();
        if let Some(Err(error)) = authority.map(|authority| clients.set(authority.roots())) {
            tracing::error!("{error}; the last roots stay");
        }
        authorities.changed().await.context("the CA is not maintained any more")?;
    }
}

/// Options of the CA's reconciliation.
fn options(args: &DiscoveryArgs) -> Options {
    let certificates = &args.certificates;
    let defaults = Parameters::default();
    let leaf_lifetime = certificates.max_lifetime;
    let mut parameters = Parameters {
        authority_lifetime: certificates.ca_lifetime,
        leaf_lifetime,
        propagation_delay: certificates.propagation_delay,
        ..defaults
    };
    // A certificate signed at the last moment must expire before its CA is dropped.
    let margin = (parameters.freshness() * 2).max(SignedDuration::from_hours(1));
    parameters.retire_delay = leaf_lifetime + margin;
    let revision = match args.revision.as_str() {
        "" => "default",
        revision => revision,
    };
    let pilot = format!("istio-pilot.{}.svc", args.namespace);
    Options {
        namespace: args.namespace.clone(),
        install: Options::for_revision(PROGRAM, revision),
        service: certificates
            .service
            .clone()
            .unwrap_or_else(|| Options::for_revision("istiod", revision)),
        cluster_domain: args.domain.clone(),
        extra_names: certificates.extra_names.iter().cloned().chain([pilot]).collect(),
        revision: revision.to_owned(),
        secret_name: certificates
            .ca_secret
            .clone()
            .unwrap_or_else(|| Options::for_revision("pilot-discovery-ca", revision)),
        webhook_configurations: Vec::new(),
        root_config_maps: true,
        parameters,
        signer: None,
    }
}

/// Folder in which Istio's installations mount the Secret `cacerts`.
pub fn default_ca_folder() -> PathBuf {
    PathBuf::from("/etc/cacerts")
}

const PROGRAM: &str = "pilot-discovery";

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Arguments, Command};

    #[test]
    fn names_follow_the_revision() {
        for (revision, suffix) in [("", ""), ("default", ""), ("canary", "-canary")] {
            let args = ["pilot-discovery", "discovery", "--revision", revision];
            let Command::Discovery(args) = Arguments::parse_from(args).command else {
                panic!("another command")
            };
            let options = options(&args);
            assert_eq!(options.service, format!("istiod{suffix}"));
            assert_eq!(options.secret_name, format!("pilot-discovery-ca{suffix}"));
            assert_eq!(options.install, format!("pilot-discovery{suffix}"));
        }
    }
}
