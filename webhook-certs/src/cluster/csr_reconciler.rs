//! Reconciler for a signer of the cluster: requests, serves and publishes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use tokio::sync::{Notify, watch};

use super::api::ClusterApi;
use super::call_error::{APPROVAL, REQUESTS};
use super::csr::{CsrState, is_approved, pause_after, renew_at, state, verify};
use super::events::EventContent;
use super::prober::LatestProbe;
use super::publication::{self, PublicationError};
use super::reporting::Reporter;
use super::wait;
use super::writes::Writes;
use crate::authority::{Entropy, LeafRequest};
use crate::bundle::{Bundle, TrustedCa};
use crate::options::{ForeignCa, Options, Signer};
use crate::rotation::{Configuration, Observation, publish};
use crate::server_names::ServerNames;
use crate::serving::{Identity, ServingCertificate};
use crate::status::Status;

/// Reconciler of one replica for a signer of the cluster.
pub(super) struct CsrReconciler<'a> {
    api: &'a ClusterApi,
    options: &'a Options,
    signer: &'a Signer,
    names: ServerNames,
    certificate: &'a ServingCertificate,
    status: watch::Sender<Status>,
    reporter: Reporter<'a>,
    writes: Writes<'a>,
    pending: Option<Pending>,
    failure: Option<RequestFailure>,
    renew_at: Option<Timestamp>,
    /// Content of the CA file when it was last readable.
    bundle: Option<Bundle>,
    /// Instant at which each CA in a bundle that is not in the file was first seen.
    foreign: BTreeMap<Vec<u8>, Timestamp>,
}

/// A request that is not decided yet.
struct Pending {
    name: String,
    request: LeafRequest,
    since: Instant,
}

/// Failure to get a leaf, and the end of the pause after it.
struct RequestFailure {
    reason: String,
    until: Instant,
    times: u32,
}

impl<'a> CsrReconciler<'a> {
    /// A replica without memory.
    pub(super) fn new(
        api: &'a ClusterApi,
        options: &'a Options,
        signer: &'a Signer,
        names: ServerNames,
        certificate: &'a ServingCertificate,
        probes: watch::Receiver<LatestProbe>,
        status: watch::Sender<Status>,
    ) -> Self {
        Self {
            api,
            options,
            signer,
            names,
            certificate,
            status,
            reporter: Reporter::new(api, options, probes),
            writes: Writes::new(&options.parameters),
            pending: None,
            failure: None,
            renew_at: None,
            bundle: None,
            foreign: BTreeMap::new(),
        }
    }

    /// Reconciles after changes, at each tick, and often while a request is pending.
    pub(super) async fn run(&mut self, changed: &Notify) -> Infallible {
        loop {
            let mut errors = Vec::new();
            self.reconcile(&mut errors).await;
            self.reporter.recorder.flush(None, &mut self.writes).await;
            self.status.send_if_modified(|status| status.record_errors(&errors));
            let tick = self.options.parameters.tick;
            let is_new = |pending: &Pending| pending.since.elapsed() < SIGNERS_TAKE;
            let pause = match &self.pending {
                Some(pending) if is_new(pending) => tick.min(WHILE_PENDING),
                _ => tick,
            };
            wait(changed, pause).await;
        }
    }

    async fn reconcile(&mut self, errors: &mut Vec<String>) {
        match self.read_bundle() {
            // A corrected file may be the cure for a rejected certificate.
            Ok(bundle) if bundle != self.bundle => (self.bundle, self.failure) = (bundle, None),
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
        let configurations = self.api.readable_configurations(errors).await;
        let clock_ahead = self.api.clock.ahead().unwrap_or_default();
        self.certificate.set_clock_ahead(clock_ahead);
        self.reporter.report_clock_skew(clock_ahead);
        self.reporter.report_probe();
        if let Err(error) = self.obtain().await {
            errors.push(error);
        }
        let seen = Observation {
            configurations,
            is_complete: errors.is_empty(),
            clock_ahead,
            ..Observation::default()
        };
        if let Some(bundle) = self.bundle.clone() {
            self.publish(&seen, &bundle, errors).await;
        }
        self.report(&seen);
    }

    /// CAs to publish; `None` if another program publishes them.
    fn read_bundle(&self) -> Result<Option<Bundle>, String> {
        let Some(path) = &self.signer.authorities else {
            return Ok(None);
        };
        let file = path.display();
        let pem = local_files::read_file(path)
            .map_err(|error| format!("--signer-ca-file `{file}`: {error}"))?;
        let bundle =
            Bundle::parse(&pem).map_err(|error| format!("--signer-ca-file `{file}`: {error}"))?;
        if bundle.certificates().len() > MOST_CAS {
            return Err(format!(
                "--signer-ca-file `{file}`: it holds more than {MOST_CAS} CAs; hint: a caBundle \
                 holds {}, one of them the CA of a leaf that is still served when the file changes",
                Bundle::CAPACITY
            ));
        }
        Ok(Some(bundle))
    }

    /// Takes the next step towards a leaf, if one is due.
    async fn obtain(&mut self) -> Result<(), String> {
        let now = self.api.clock.now();
        let Some(pending) = self.pending.take() else {
            if !self.is_due(now) {
                return Ok(());
            }
            return match &self.failure {
                Some(RequestFailure { reason, until, .. }) if Instant::now() < *until => {
                    Err(reason.clone())
                }
                _ => self.request().await,
            };
        };
        let name = &pending.name;
        let found = match self.api.signing_request(name).await {
            Ok(found) => found,
            Err(error) => {
                self.pending = Some(pending);
                return Err(error.to_string());
            }
        };
        let state = match &found {
            // Kubernetes deletes requests that are never decided; the next reconciliation requests
            // anew.
            None => return Ok(()),
            Some(found) => state(found),
        };
        let outcome = match state {
            CsrState::Pending => {
                self.pending = Some(pending);
                return match found.filter(|found| self.signer.approve && !is_approved(found)) {
                    Some(found) => self.approve(found).await,
                    None => Ok(()),
                };
            }
            CsrState::Refused(reason) => Err(format!("{REQUESTS}/{name} was {reason}")),
            CsrState::Signed(chain) => self.serve(&chain, &pending.request, now),
        };
        self.failure = outcome.as_ref().err().map(|reason| {
            let times = self.failure.as_ref().map_or(0, |before| before.times).saturating_add(1);
            let until = Instant::now() + pause_after(times, self.options.parameters.tick);
            RequestFailure { reason: reason.clone(), until, times }
        });
        if let Err(error) = &outcome {
            self.reporter.recorder.record([EventContent::request_failed(error)]);
        }
        outcome
    }

    /// True if a leaf is to be requested: there is none, it is old, or API servers that trust only
    /// the file would reject it. A file that was never readable decides nothing.
    fn is_due(&self, now: Timestamp) -> bool {
        let is_old = self.renew_at.is_none_or(|at| at <= now);
        match &self.bundle {
            Some(bundle) => is_old || !self.is_accepted(bundle, now),
            None => is_old && self.signer.authorities.is_none(),
        }
    }

    /// True if API servers that trust `bundle` accept the served leaf.
    fn is_accepted(&self, bundle: &Bundle, now: Timestamp) -> bool {
        let identity = self.certificate.current();
        identity.is_some_and(|identity| verify(&identity, bundle, &self.names, now).is_ok())
    }

    async fn request(&mut self) -> Result<(), String> {
        self.writes.spend("create", REQUESTS.to_owned()).map_err(|error| error.to_string())?;
        let request = Entropy::draw()
            .and_then(|entropy| entropy.request(&self.names))
            .map_err(|error| error.to_string())?;
        let created = self.api.create_signing_request(self.signer, &request.pem).await;
        self.writes.record_forbidden("create", REQUESTS, created.as_ref().err());
        let created = created.map_err(|error| error.to_string())?;
        let name = created.metadata.name.clone().unwrap_or_default();
        tracing::info!(request = name, signer = self.signer.name, "a certificate was requested");
        self.pending = Some(Pending { name, request, since: Instant::now() });
        if self.signer.approve {
            self.approve(created).await?;
        }
        Ok(())
    }

    /// Approves a request; after a conflict, a later reconciliation tries again.
    async fn approve(&mut self, request: CertificateSigningRequest) -> Result<(), String> {
        self.writes.spend("update", APPROVAL.to_owned()).map_err(|error| error.to_string())?;
        let approved = self.api.approve_signing_request(request).await;
        self.writes.record_forbidden("update", APPROVAL, approved.as_ref().err());
        match approved {
            Err(error) if !error.is_conflict() => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    /// Serves a signed chain, unless API servers would reject it; the last good leaf stays then.
    fn serve(&mut self, chain: &[u8], request: &LeafRequest, now: Timestamp) -> Result<(), String> {
        let signer = &self.signer.name;
        let identity = Identity::from_pem(chain, request.key.as_bytes()).map_err(|error| {
            format!("the certificate signed by `{signer}` cannot be served: {error}")
        })?;
        if let Some(bundle) = &self.bundle {
            verify(&identity, bundle, &self.names, now).map_err(|error| {
                format!(
                    "the certificate signed by `{signer}` is not served, because API servers would \
                     reject it: {error}; hint: add the CA of this signer to --signer-ca-file"
                )
            })?;
        }
        let lifetime = identity.lifetime();
        let renew_at = renew_at(lifetime, request.spread);
        self.renew_at = Some(renew_at);
        self.certificate.set(identity);
        tracing::info!(
            names = %self.names,
            not_after = %lifetime.not_after,
            %renew_at,
            signer,
            "a signed certificate is served"
        );
        Ok(())
    }

    async fn publish(&mut self, seen: &Observation, bundle: &Bundle, errors: &mut Vec<String>) {
        let now = self.api.clock.now();
        let present: Vec<&TrustedCa> =
            seen.entries().flat_map(|entry| entry.bundle.beyond(bundle)).collect();
        self.foreign.retain(|der, _| present.iter().any(|ca| ca.der().as_ref() == der));
        for ca in &present {
            self.foreign.entry(ca.der().to_vec()).or_insert(now);
        }
        let (served, others): (Vec<_>, Vec<_>) = present
            .into_iter()
            .partition(|ca| self.is_accepted(&Bundle::new((*ca).clone(), None), now));
        self.reporter
            .report_foreign_cas(others.into_iter().map(|ca| ca.name().to_owned()).collect());
        // API servers need the CA of the served leaf until another one is served, and before
        // foreign CAs.
        let needed = bundle.clone().with(served.into_iter().cloned());
        let delay: SignedDuration = self.options.parameters.retire_delay;
        let keeps = |ca: &TrustedCa| {
            let since = self.foreign.get(ca.der().as_ref()).copied().unwrap_or(now);
            ca.not_after() >= now
                && match self.options.parameters.foreign_ca {
                    ForeignCa::Keep => true,
                    ForeignCa::Grace => now.duration_since(since) < delay,
                    ForeignCa::Drop => false,
                }
        };
        let patches: Vec<_> = seen
            .configurations
            .iter()
            .filter_map(|configuration| publish(configuration, &needed, keeps))
            .collect();
        self.reporter.report_overwrites(
            seen,
            &patches.iter().collect::<Vec<_>>(),
            &mut self.writes,
        );
        for patch in &patches {
            let Self { api, writes, reporter, status, .. } = self;
            match publication::publish(patch, api, writes, reporter, status).await {
                Ok(()) => {
                    tracing::info!(configuration = patch.name, "the signer's CA was published");
                }
                Err(PublicationError::Call(error)) if error.is_conflict() => {}
                Err(error) => errors.push(error.to_string()),
            }
        }
    }

    fn report(&self, seen: &Observation) {
        let now = self.api.clock.now();
        let trusts = |configuration: &Configuration| {
            configuration.entries.iter().all(|entry| self.is_accepted(&entry.bundle, now))
        };
        self.status.send_if_modified(|status| {
            let before = status.clone();
            self.reporter.fill_status(status, seen, &self.writes, self.api.clock.ahead());
            status.trusted = seen.configurations.iter().all(trusts);
            status.foreign = self.foreign.len();
            status.leaf_not_after = self.certificate.not_after();
            *status != before
        });
    }
}

/// One slot of a bundle is for the CA of a leaf that is still served after the file changed.
const MOST_CAS: usize = Bundle::CAPACITY - 1;
/// Signers take moments, people who approve take hours.
const SIGNERS_TAKE: Duration = Duration::from_secs(60);
const WHILE_PENDING: Duration = Duration::from_secs(1);
