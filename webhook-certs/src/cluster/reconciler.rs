//! Reconciler of one replica: observes, decides, acts.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use tokio::sync::{Notify, watch};

use super::api::ClusterApi;
use super::call_error::CallError;
use super::content::{self, empty_secret, last_writer};
use super::events::EventContent;
use super::prober::LatestProbe;
use super::publication::{PublicationError, publish};
use super::reporting::Reporter;
use super::root_config_maps::Snapshot;
use super::writes::{WriteError, Writes};
use super::{AuthoritySender, wait};
use crate::authority::{AuthorityError, Entropy};
use crate::options::Options;
use crate::rotation::{
    Action, Content, Decision, Memory, Observation, ProductionRules, Revocation, Rules, decide,
    leaf_lifetime,
};
use crate::secret::rotation_requests::RotationRequests;
use crate::secret::{State, is_immutable};
use crate::server_names::ServerNames;
use crate::serving::{Identity, IdentityError, ServingCertificate};
use crate::status::Status;
use crate::workload::authority::{
    MAX_VALIDITY, ValidityLimit, WorkloadAuthority, WorkloadAuthorityError,
};

/// Reconciler of one replica.
pub(super) struct Reconciler<'a> {
    api: &'a ClusterApi,
    options: &'a Options,
    names: ServerNames,
    certificate: &'a ServingCertificate,
    status: watch::Sender<Status>,
    memory: Memory,
    writes: Writes<'a>,
    reporter: Reporter<'a>,
    /// Receiver of the CA that signs for workloads, if it does.
    workloads: Option<AuthoritySender>,
    /// Problem of the Secret in the latest reconciliation.
    problem: Option<String>,
    /// True if writing the Secret repairs it.
    repairs: bool,
}

/// Result of a reconciliation.
#[derive(Default)]
struct ReconcileResult {
    /// True after a write or a conflict: reconcile again at once.
    again: bool,
    /// Time until the write budget allows a pending write.
    wait: Option<Duration>,
    /// True if the API server did not respond.
    is_unanswered: bool,
    /// Errors, in order.
    errors: Vec<String>,
}

impl<'a> Reconciler<'a> {
    /// A replica without memory.
    pub(super) fn new(
        api: &'a ClusterApi,
        options: &'a Options,
        names: ServerNames,
        certificate: &'a ServingCertificate,
        probes: watch::Receiver<LatestProbe>,
        status: watch::Sender<Status>,
        workloads: Option<AuthoritySender>,
    ) -> Self {
        Self {
            api,
            options,
            names,
            certificate,
            status,
            memory: Memory::default(),
            writes: Writes::new(&options.parameters),
            reporter: Reporter::new(api, options, probes),
            workloads,
            problem: None,
            repairs: false,
        }
    }

    /// Reconciles after changes and at each tick.
    pub(super) async fn run(&mut self, changed: &Notify) -> Infallible {
        let mut backoff = DefaultBackoff::default();
        loop {
            let outcome = self.reconcile().await;
            self.status.send_if_modified(|status| status.record_errors(&outcome.errors));
            if outcome.again {
                tokio::task::yield_now().await;
                continue;
            }
            let tick = self.options.parameters.tick;
            let pause = if let Some(wait) = outcome.wait {
                wait.min(tick)
            } else if outcome.errors.is_empty() {
                backoff.reset();
                tick
            } else {
                let longest = if outcome.is_unanswered { tick.min(OUTAGE) } else { tick };
                backoff.next().unwrap_or(longest).min(longest)
            };
            wait(changed, pause).await;
        }
    }

    /// Reads everything, decides, and carries the actions out.
    async fn reconcile(&mut self) -> ReconcileResult {
        let mut outcome = ReconcileResult::default();
        let read = Timestamp::now();
        // Before the Secret, whose CAs are then at least as new as those that replicas published.
        let roots = self.api.roots(&mut outcome.errors);
        let secret = match self.api.secret().await {
            Ok(secret) => secret,
            Err(error) => {
                outcome.is_unanswered = error.is_unanswered();
                outcome.errors.push(error.to_string());
                return outcome;
            }
        };
        let configurations = self.api.readable_configurations(&mut outcome.errors).await;
        let is_complete =
            outcome.errors.is_empty() && roots.is_some() == self.options.root_config_maps;
        let probe = self.reporter.probed();
        let clock_ahead = self.api.clock.ahead().unwrap_or_default();
        let published = roots.as_ref().map(Snapshot::published).unwrap_or_default();
        let observation = Observation {
            secret,
            configurations,
            roots: published,
            is_complete,
            clock_ahead,
            probe,
        };
        let parameters = &self.options.parameters;
        let now = self.api.clock.now();
        let Decision { actions, problem, repairs } =
            decide(&mut self.memory, &observation, &self.names, parameters, now);
        if problem != self.problem {
            if let Some(problem) = &problem {
                tracing::warn!(secret = self.options.secret_name, "{problem}");
            }
            self.problem = problem;
        }
        let patches: Vec<_> = actions.iter().filter_map(Action::patch).collect();
        self.reporter.report_overwrites(&observation, &patches, &mut self.writes);
        self.reporter.report_foreign_cas(self.memory.foreign_names());
        if let (Some(secret), Some(state)) = (&observation.secret, &self.memory.state) {
            let pending = Revocation::pending(secret, state, parameters, now);
            self.reporter.report_revocations(pending);
        }
        if let Some(secret) = observation.secret.as_ref().filter(|secret| is_immutable(secret)) {
            self.reporter.recorder.record([EventContent::secret_immutable(secret)]);
        }
        self.reporter.report_clock_skew(clock_ahead);
        self.reporter.report_probe();
        self.certificate.set_clock_ahead(clock_ahead);
        self.repairs = repairs;
        for action in actions {
            if !ProductionRules::is_fresh(read, parameters, Timestamp::now()) {
                outcome.errors.push(
                    "the API server responds too slowly; the outdated observation is discarded; \
                     hint: see --propagation-delay"
                        .to_owned(),
                );
                break;
            }
            match self.carry_out(action, observation.secret.as_ref()).await {
                Ok(Done::Written) => outcome.again = true,
                Ok(Done::Serving) => {}
                Err(ActionError::Call(error)) if error.is_conflict() => {
                    tracing::debug!("looking again: {error}");
                    outcome.again = true;
                }
                Err(error) => {
                    if let ActionError::Write(WriteError::Budget { wait, .. }) = error {
                        outcome.wait = Some(outcome.wait.map_or(wait, |other| wait.min(other)));
                    }
                    outcome.errors.push(error.to_string());
                }
            }
        }
        if let Some(roots) = roots
            && ProductionRules::is_fresh(read, parameters, Timestamp::now())
        {
            self.publish_roots(roots, &mut outcome).await;
        }
        if let Err(error) = self.offer_authority() {
            outcome.errors.push(error.to_string());
        }
        self.reporter.recorder.flush(observation.secret.as_ref(), &mut self.writes).await;
        self.report(&observation);
        outcome
    }

    async fn carry_out(
        &mut self,
        action: Action,
        secret: Option<&Secret>,
    ) -> Result<Done, ActionError> {
        match action {
            Action::CreateSecret(content) => {
                self.writes.spend("create", self.api.secret_path())?;
                let state = self.state(content)?;
                let mut secret = state.write(empty_secret(self.options));
                self.memory.requests().restore(&mut secret);
                let created = self.api.create_secret(&secret).await;
                self.record_forbidden("create", &self.api.secret_path(), created)?;
                self.record_write(&state, None, "the CA's Secret was created");
                Ok(Done::Written)
            }
            Action::ReplaceSecret(content) => {
                self.writes.spend("update", self.api.secret_path())?;
                let state = self.state(content)?;
                let mut replacement = state.write(secret.cloned().unwrap_or_default());
                if self.repairs {
                    self.memory.requests().restore(&mut replacement);
                }
                if let Some(before) = &self.memory.state {
                    RotationRequests::fulfil(&mut replacement, before, &state);
                }
                let replaced = self.api.replace_secret(&replacement).await;
                self.record_forbidden("update", &self.api.secret_path(), replaced)?;
                self.record_write(&state, secret, "the CA's Secret was updated");
                Ok(Done::Written)
            }
            Action::PatchBundle(patch) => {
                let Self { api, writes, reporter, status, .. } = self;
                publish(&patch, api, writes, reporter, status).await?;
                tracing::info!(
                    configuration = patch.name,
                    entries = patch.entries.len(),
                    "the CA was published"
                );
                Ok(Done::Written)
            }
            Action::Serve { authority, until } => {
                let now = self.api.clock.now();
                let lifetime = leaf_lifetime(until, &self.options.parameters, now);
                let entropy = Entropy::draw().map_err(ActionError::Authority)?;
                let leaf = authority
                    .issue(&self.names, lifetime, entropy)
                    .map_err(ActionError::Authority)?;
                self.certificate.set(Identity::from_leaf(&leaf).map_err(ActionError::Leaf)?);
                tracing::info!(
                    names = %self.names,
                    not_after = %leaf.lifetime().not_after,
                    authority = authority.ca().name(),
                    "a new leaf is served"
                );
                self.memory.leaf = Some(leaf);
                Ok(Done::Serving)
            }
        }
    }

    /// Publishes the Secret's CAs as roots of workloads.
    async fn publish_roots(&mut self, roots: Snapshot, outcome: &mut ReconcileResult) {
        let (Some(config_maps), Some(state)) = (&self.api.roots, &self.memory.state) else {
            return;
        };
        let published = config_maps.publish(roots, &state.bundle(), &mut self.writes).await;
        outcome.wait = outcome.wait.into_iter().chain(published.wait).min();
        outcome.errors.extend(published.errors);
    }

    /// Lets the CA of the served leaf sign for workloads too: it is chosen by what they trust.
    ///
    /// If the Secret does not hold that CA, the leaf stays, and so does the CA that signs.
    fn offer_authority(&self) -> Result<(), WorkloadAuthorityError> {
        let (Some(workloads), Some(state), Some(leaf)) =
            (&self.workloads, &self.memory.state, &self.memory.leaf)
        else {
            return Ok(());
        };
        let mut cas = std::iter::once(&state.active).chain(state.phase.other());
        let Some(signing) = cas.find(|authority| authority.ca().is_same_signer(leaf.issuer()))
        else {
            return Ok(());
        };
        let parameters = &self.options.parameters;
        let limit = ValidityLimit {
            longest: MAX_VALIDITY.min(parameters.leaf_lifetime),
            until: ProductionRules::limit(state, signing, parameters),
        };
        let roots = state.bundle();
        let is_current = |current: &Arc<WorkloadAuthority>| {
            current.certificate() == signing.ca()
                && *current.roots() == roots
                && current.limit() == limit
        };
        if workloads.borrow().as_ref().is_some_and(is_current) {
            return Ok(());
        }
        let authority = WorkloadAuthority::from_authority(signing, roots, limit)?;
        workloads.send_replace(Some(Arc::new(authority)));
        Ok(())
    }

    fn state(&self, content: Content) -> Result<State, ActionError> {
        content::state(content, self.options, self.api.clock.now()).map_err(ActionError::Authority)
    }

    /// Records a written state that replaces `found`.
    fn record_write(&mut self, state: &State, found: Option<&Secret>, what: &'static str) {
        self.reporter.recorder.record(match &self.problem {
            Some(problem) if self.repairs => {
                let ours = self.options.field_manager();
                let manager = found.and_then(|secret| last_writer(secret, &ours));
                let name = &self.options.secret_name;
                Some(EventContent::secret_restored(name, problem, manager.as_deref()))
            }
            _ => EventContent::state_written(self.memory.state.as_ref(), state),
        });
        self.memory.adopt(state.clone());
        self.status.send_modify(|status| status.secret_writes += 1);
        tracing::info!(
            secret = self.options.secret_name,
            generation = state.generation,
            phase = %state.phase,
            authority = state.active.ca().name(),
            "{what}"
        );
    }

    /// Records a forbidden write.
    fn record_forbidden<T>(
        &mut self,
        verb: &'static str,
        object: &str,
        outcome: Result<T, CallError>,
    ) -> Result<T, ActionError> {
        self.writes.record_forbidden(verb, object, outcome.as_ref().err());
        outcome.map_err(ActionError::Call)
    }

    fn report(&self, observation: &Observation) {
        let now = self.api.clock.now();
        let state = self.memory.state.as_ref();
        let leaf = self.memory.leaf.as_ref();
        self.status.send_if_modified(|status| {
            let before = status.clone();
            status.phase = state.map(|state| state.phase.word());
            status.phase_since = state.map(|state| state.phase_since);
            status.generation = state.map(|state| state.generation);
            self.reporter.fill_status(status, observation, &self.writes, self.api.clock.ahead());
            status.trusted = leaf.is_some_and(|leaf| observation.trusts(leaf.issuer(), now));
            status.foreign = self.memory.foreign();
            status.revocations.clone_from(&self.reporter.revocations);
            status.authority_not_after = state.map(|state| state.active.ca().not_after());
            status.leaf_not_after = leaf.map(|leaf| leaf.lifetime().not_after);
            *status != before
        });
    }
}

impl From<PublicationError> for ActionError {
    fn from(error: PublicationError) -> Self {
        match error {
            PublicationError::Call(error) => Self::Call(error),
            PublicationError::Write(error) => Self::Write(error),
        }
    }
}

enum Done {
    Written,
    Serving,
}

/// Reason for which an action was not carried out.
#[derive(Debug, thiserror::Error)]
enum ActionError {
    #[error(transparent)]
    Call(CallError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("cannot make a certificate: {0}")]
    Authority(#[source] AuthorityError),
    #[error("the minted leaf cannot be served: {0}")]
    Leaf(#[source] IdentityError),
}

/// Maximum pause while the API server does not respond: changes are repaired soon after it is back,
/// and other servers get no load.
const OUTAGE: Duration = Duration::from_secs(2);
