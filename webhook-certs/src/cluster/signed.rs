//! One replica's part where a signer of the cluster signs: it asks, waits, serves and publishes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use tokio::sync::{Notify, watch};

use super::call_error::{APPROVAL, REQUESTS};
use super::notices::Notices;
use super::objects::Objects;
use super::publication::{self, PublicationError};
use super::writes::Writes;
use crate::authority::{Entropy, LeafRequest};
use crate::bundle::{Bundle, TrustedCa};
use crate::news::News;
use crate::options::{ForeignCa, Options, Signer};
use crate::rotation::{Configuration, Observation, publish};
use crate::server_names::ServerNames;
use crate::serving::{Identity, ServingCertificate};
use crate::signing::{Answer, answer, is_approved, pause_after, renew_at, verify};
use crate::status::Status;

/// One replica's part where a signer of the cluster signs.
pub(super) struct Signed<'a> {
    pub(super) objects: &'a Objects,
    pub(super) options: &'a Options,
    pub(super) signer: &'a Signer,
    pub(super) names: ServerNames,
    pub(super) certificate: &'a ServingCertificate,
    pub(super) status: watch::Sender<Status>,
    pub(super) notices: Notices<'a>,
    pub(super) writes: Writes<'a>,
    pub(super) pending: Option<Pending>,
    pub(super) refusal: Option<Refusal>,
    pub(super) renew_at: Option<Timestamp>,
    /// What the file held when it could be read last.
    pub(super) bundle: Option<Bundle>,
    /// Since when each CA that the file does not hold has been seen in a bundle.
    pub(super) foreign: BTreeMap<Vec<u8>, Timestamp>,
}

/// A request that nobody has answered yet.
pub(super) struct Pending {
    name: String,
    request: LeafRequest,
    since: Instant,
}

/// Why there is no leaf, and until when it is not asked for again.
pub(super) struct Refusal {
    reason: String,
    until: Instant,
    times: u32,
}

impl Signed<'_> {
    /// Looks again and again: when something changed, at each tick, and often while it waits for the
    /// signer.
    pub(super) async fn run(&mut self, changed: &Notify) -> Infallible {
        loop {
            let mut troubles = Vec::new();
            self.look(&mut troubles).await;
            self.notices.journal.flush(None, &mut self.writes).await;
            self.tell(&troubles);
            let tick = self.options.parameters.tick;
            let is_new = |pending: &Pending| pending.since.elapsed() < SIGNERS_TAKE;
            let pause = match &self.pending {
                Some(pending) if is_new(pending) => tick.min(WHILE_PENDING),
                _ => tick,
            };
            tokio::time::sleep(SPACING).await;
            tokio::select! {
                () = changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn look(&mut self, troubles: &mut Vec<String>) {
        match self.read_bundle() {
            // A file that was mended may be what the signer's certificates were refused for.
            Ok(bundle) if bundle != self.bundle => (self.bundle, self.refusal) = (bundle, None),
            Ok(_) => {}
            Err(error) => troubles.push(error),
        }
        let mut configurations = Vec::new();
        for found in self.objects.configurations().await {
            match found {
                Ok(found) => configurations.push(found),
                Err(error) => troubles.push(error.to_string()),
            }
        }
        let clock_ahead = self.objects.clock.ahead().unwrap_or_default();
        self.certificate.set_clock_ahead(clock_ahead);
        self.notices.of_clock(clock_ahead);
        self.notices.of_probe();
        if let Err(error) = self.obtain().await {
            troubles.push(error);
        }
        let seen = Observation {
            configurations,
            is_complete: troubles.is_empty(),
            clock_ahead,
            ..Observation::default()
        };
        if let Some(bundle) = self.bundle.clone() {
            self.publish(&seen, &bundle, troubles).await;
        }
        self.report(&seen);
    }

    /// What API servers have to trust; nothing where somebody else sees to that.
    fn read_bundle(&self) -> Result<Option<Bundle>, String> {
        let Some(path) = &self.signer.authorities else {
            return Ok(None);
        };
        let file = path.display();
        let pem =
            std::fs::read(path).map_err(|error| format!("--signer-ca-file `{file}`: {error}"))?;
        let bundle =
            Bundle::parse(&pem).map_err(|error| format!("--signer-ca-file `{file}`: {error}"))?;
        if bundle.certificates().len() > MOST_CAS {
            return Err(format!(
                "--signer-ca-file `{file}`: it holds more than {MOST_CAS} CAs; hint: a caBundle \
                 holds {}, and one place is for the CA of a leaf that is still served when the \
                 file changes",
                Bundle::CAPACITY
            ));
        }
        Ok(Some(bundle))
    }

    /// Takes the next step to a leaf, where one is due.
    async fn obtain(&mut self) -> Result<(), String> {
        let now = self.objects.clock.now();
        let Some(pending) = self.pending.take() else {
            if !self.is_due(now) {
                return Ok(());
            }
            return match &self.refusal {
                Some(Refusal { reason, until, .. }) if Instant::now() < *until => {
                    Err(reason.clone())
                }
                _ => self.request().await,
            };
        };
        let name = &pending.name;
        let found = match self.objects.signing_request(name).await {
            Ok(found) => found,
            Err(error) => {
                self.pending = Some(pending);
                return Err(error.to_string());
            }
        };
        let answer = match &found {
            // Kubernetes removes requests that nobody decides on; the next look asks anew.
            None => return Ok(()),
            Some(found) => answer(found),
        };
        let outcome = match answer {
            Answer::Pending => {
                self.pending = Some(pending);
                return match found.filter(|found| self.signer.approve && !is_approved(found)) {
                    Some(found) => self.approve(found).await,
                    None => Ok(()),
                };
            }
            Answer::Refused(reason) => Err(format!("{REQUESTS}/{name} was {reason}")),
            Answer::Signed(chain) => self.serve(&chain, &pending.request, now),
        };
        self.refusal = outcome.as_ref().err().map(|reason| {
            let times = self.refusal.as_ref().map_or(0, |before| before.times).saturating_add(1);
            let until = Instant::now() + pause_after(times, self.options.parameters.tick);
            Refusal { reason: reason.clone(), until, times }
        });
        if let Err(error) = &outcome {
            self.notices.journal.note([News::request_failed(error)]);
        }
        outcome
    }

    /// Tells whether a leaf is to be requested: there is none, it is old, or API servers that trust
    /// the file alone would refuse it. What a file that was never read would refuse is not known.
    fn is_due(&self, now: Timestamp) -> bool {
        let is_old = self.renew_at.is_none_or(|at| at <= now);
        match &self.bundle {
            Some(bundle) => is_old || !self.is_accepted(bundle, now),
            None => is_old && self.signer.authorities.is_none(),
        }
    }

    /// Tells whether API servers that trust `bundle` accept the leaf that is served.
    fn is_accepted(&self, bundle: &Bundle, now: Timestamp) -> bool {
        let identity = self.certificate.current();
        identity.is_some_and(|identity| verify(&identity, bundle, &self.names, now).is_ok())
    }

    async fn request(&mut self) -> Result<(), String> {
        self.writes.spend("create", REQUESTS.to_owned()).map_err(|error| error.to_string())?;
        let request = Entropy::draw()
            .and_then(|entropy| entropy.request(&self.names))
            .map_err(|error| error.to_string())?;
        let created = self.objects.create_signing_request(self.signer, &request.pem).await;
        self.writes.heed("create", REQUESTS, created.as_ref().err());
        let created = created.map_err(|error| error.to_string())?;
        let name = created.metadata.name.clone().unwrap_or_default();
        tracing::info!(request = name, signer = self.signer.name, "a certificate was requested");
        self.pending = Some(Pending { name, request, since: Instant::now() });
        if self.signer.approve {
            self.approve(created).await?;
        }
        Ok(())
    }

    /// Approves a request; one that could not be is approved at a later look.
    async fn approve(&mut self, request: CertificateSigningRequest) -> Result<(), String> {
        self.writes.spend("update", APPROVAL.to_owned()).map_err(|error| error.to_string())?;
        let approved = self.objects.approve_signing_request(request).await;
        self.writes.heed("update", APPROVAL, approved.as_ref().err());
        match approved {
            Err(error) if !error.is_conflict() => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    /// Serves what was signed, unless API servers would refuse it: the last good leaf stays then.
    fn serve(&mut self, chain: &[u8], request: &LeafRequest, now: Timestamp) -> Result<(), String> {
        let signer = &self.signer.name;
        let identity = Identity::from_pem(chain, request.key.as_bytes())
            .map_err(|error| format!("what `{signer}` has signed cannot be served: {error}"))?;
        if let Some(bundle) = &self.bundle {
            verify(&identity, bundle, &self.names, now).map_err(|error| {
                format!(
                    "what `{signer}` has signed is not served, since API servers would refuse it: \
                     {error}; hint: --signer-ca-file has to hold the CA of this signer"
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
            "a certificate was signed and is served"
        );
        Ok(())
    }

    async fn publish(&mut self, seen: &Observation, bundle: &Bundle, troubles: &mut Vec<String>) {
        let now = self.objects.clock.now();
        let present: Vec<&TrustedCa> =
            seen.entries().flat_map(|entry| entry.bundle.beyond(bundle)).collect();
        self.foreign.retain(|der, _| present.iter().any(|ca| ca.der().as_ref() == der));
        for ca in &present {
            self.foreign.entry(ca.der().to_vec()).or_insert(now);
        }
        let (served, others): (Vec<_>, Vec<_>) = present
            .into_iter()
            .partition(|ca| self.is_accepted(&Bundle::new((*ca).clone(), None), now));
        self.notices.of_foreign(others.into_iter().map(|ca| ca.name().to_owned()).collect());
        // Until another leaf is served, API servers need its CA, and before any foreign one.
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
        self.notices.of_others(seen, &patches.iter().collect::<Vec<_>>(), &mut self.writes);
        for patch in &patches {
            let Self { objects, writes, notices, status, .. } = self;
            match publication::publish(patch, objects, writes, notices, status).await {
                Ok(()) => {
                    tracing::info!(configuration = patch.name, "the signer's CA was published");
                }
                Err(PublicationError::Call(error)) if error.is_conflict() => {}
                Err(error) => troubles.push(error.to_string()),
            }
        }
    }

    fn report(&self, seen: &Observation) {
        let now = self.objects.clock.now();
        let trusts = |configuration: &Configuration| {
            configuration.entries.iter().all(|entry| self.is_accepted(&entry.bundle, now))
        };
        self.status.send_if_modified(|status| {
            let before = status.clone();
            status.entries = seen.entries().count();
            status.trusted = seen.configurations.iter().all(trusts);
            status.foreign = self.foreign.len();
            status.denied = self.writes.denied();
            status.clock_ahead = self.objects.clock.ahead();
            status.overwrites.clone_from(self.notices.contention.overwrites());
            status.probe = self.notices.probe();
            status.leaf_not_after = self.certificate.not_after();
            *status != before
        });
    }

    fn tell(&self, troubles: &[String]) {
        self.status.send_if_modified(|status| status.heed_troubles(troubles));
    }
}

/// One place of a bundle is for the CA of a leaf that is served when the file changes.
const MOST_CAS: usize = Bundle::CAPACITY - 1;
const SPACING: Duration = Duration::from_millis(100);
/// Signers take moments, and people who approve hours.
const SIGNERS_TAKE: Duration = Duration::from_secs(60);
const WHILE_PENDING: Duration = Duration::from_secs(1);
