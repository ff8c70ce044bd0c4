//! One replica's part in the upkeep: looking, deciding, doing.

use std::convert::Infallible;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use tokio::sync::{Notify, watch};

use super::call_error::CallError;
use super::content::{self, empty_secret, last_writer};
use super::notices::Notices;
use super::objects::Objects;
use super::prober::Probed;
use super::publication::{PublicationError, publish};
use super::writes::{WriteError, Writes};
use crate::authority::{AuthorityError, Entropy};
use crate::news::News;
use crate::options::Options;
use crate::requests::Requests;
use crate::rotation::{
    Action, Content, Decision, Memory, Observation, Revocation, decide, is_fresh, leaf_lifetime,
};
use crate::secret::{State, is_immutable};
use crate::server_names::ServerNames;
use crate::serving::{Identity, IdentityError, ServingCertificate};
use crate::status::Status;

/// One replica's part in the upkeep.
pub(super) struct Upkeep<'a> {
    objects: &'a Objects,
    options: &'a Options,
    names: ServerNames,
    certificate: &'a ServingCertificate,
    status: watch::Sender<Status>,
    memory: Memory,
    writes: Writes<'a>,
    notices: Notices<'a>,
    /// What was wrong with the Secret at the latest look.
    complaint: Option<String>,
    /// Whether what is written to it repairs it.
    repairs: bool,
}

/// How a look at the cluster went.
#[derive(Default)]
struct Outcome {
    /// Something was written, or somebody else was faster: look again at once.
    again: bool,
    /// A write has to wait for its budget.
    wait: Option<Duration>,
    /// The API server did not answer at all.
    is_unanswered: bool,
    /// What went wrong.
    troubles: Vec<String>,
}

impl<'a> Upkeep<'a> {
    /// A replica that knows nothing yet.
    pub(super) fn new(
        objects: &'a Objects,
        options: &'a Options,
        names: ServerNames,
        certificate: &'a ServingCertificate,
        probes: watch::Receiver<Probed>,
        status: watch::Sender<Status>,
    ) -> Self {
        Self {
            objects,
            options,
            names,
            certificate,
            status,
            memory: Memory::default(),
            writes: Writes::new(&options.parameters),
            notices: Notices::new(objects, options, probes),
            complaint: None,
            repairs: false,
        }
    }

    /// Looks again and again: when something changed, and at each tick.
    pub(super) async fn run(&mut self, changed: &Notify) -> Infallible {
        let mut backoff = DefaultBackoff::default();
        loop {
            let outcome = self.look().await;
            self.tell(&outcome.troubles);
            if outcome.again {
                tokio::task::yield_now().await;
                continue;
            }
            let tick = self.options.parameters.tick;
            let pause = if let Some(wait) = outcome.wait {
                wait.min(tick)
            } else if outcome.troubles.is_empty() {
                backoff.reset();
                tick
            } else {
                let longest = if outcome.is_unanswered { tick.min(OUTAGE) } else { tick };
                backoff.next().unwrap_or(longest).min(longest)
            };
            // Events that arrive together are looked at together.
            tokio::time::sleep(SPACING).await;
            tokio::select! {
                () = changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Reads everything, decides, and carries out what was decided.
    async fn look(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        let read = Timestamp::now();
        let secret = match self.objects.secret().await {
            Ok(secret) => secret,
            Err(error) => {
                outcome.is_unanswered = error.is_unanswered();
                outcome.troubles.push(error.to_string());
                return outcome;
            }
        };
        let mut configurations = Vec::new();
        for found in self.objects.configurations().await {
            match found {
                Ok(found) => configurations.push(found),
                Err(error) => outcome.troubles.push(error.to_string()),
            }
        }
        let is_complete = outcome.troubles.is_empty();
        let probe = self.notices.probed();
        let clock_ahead = self.objects.clock.ahead().unwrap_or_default();
        let observation = Observation { secret, configurations, is_complete, clock_ahead, probe };
        let parameters = &self.options.parameters;
        let now = self.objects.clock.now();
        let Decision { actions, complaint, repairs } =
            decide(&mut self.memory, &observation, &self.names, parameters, now);
        if complaint != self.complaint {
            if let Some(complaint) = &complaint {
                tracing::warn!(secret = self.options.secret_name, "{complaint}");
            }
            self.complaint = complaint;
        }
        let patches: Vec<_> = actions.iter().filter_map(Action::patch).collect();
        self.notices.of_others(&observation, &patches, &mut self.writes);
        self.notices.of_foreign(self.memory.foreign_names());
        if let (Some(secret), Some(state)) = (&observation.secret, &self.memory.state) {
            let pending = Revocation::pending(secret, state, parameters, now);
            self.notices.of_revocations(pending);
        }
        if let Some(secret) = observation.secret.as_ref().filter(|secret| is_immutable(secret)) {
            self.notices.journal.note([News::secret_immutable(secret)]);
        }
        self.notices.of_clock(clock_ahead);
        self.notices.of_probe();
        self.certificate.set_clock_ahead(clock_ahead);
        self.repairs = repairs;
        for action in actions {
            if !is_fresh(read, parameters, Timestamp::now()) {
                outcome.troubles.push(
                    "the API server answers too slowly; nothing is done about what it said \
                     before; hint: see --propagation-delay"
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
                    outcome.troubles.push(error.to_string());
                }
            }
        }
        self.notices.journal.flush(observation.secret.as_ref(), &mut self.writes).await;
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
                self.writes.spend("create", self.objects.secret_path())?;
                let state = self.state(content)?;
                let mut secret = state.write(empty_secret(self.options));
                self.memory.requests().restore(&mut secret);
                let created = self.objects.create_secret(&secret).await;
                self.heed("create", &self.objects.secret_path(), created)?;
                self.written(&state, None, "the CA's Secret was created");
                Ok(Done::Written)
            }
            Action::ReplaceSecret(content) => {
                self.writes.spend("update", self.objects.secret_path())?;
                let state = self.state(content)?;
                let mut replacement = state.write(secret.cloned().unwrap_or_default());
                if self.repairs {
                    self.memory.requests().restore(&mut replacement);
                }
                if let Some(before) = &self.memory.state {
                    Requests::fulfil(&mut replacement, before, &state);
                }
                let replaced = self.objects.replace_secret(&replacement).await;
                self.heed("update", &self.objects.secret_path(), replaced)?;
                self.written(&state, secret, "the CA's Secret was written again");
                Ok(Done::Written)
            }
            Action::PatchBundle(patch) => {
                let Self { objects, writes, notices, status, .. } = self;
                publish(&patch, objects, writes, notices, status).await?;
                tracing::info!(
                    configuration = patch.name,
                    entries = patch.entries.len(),
                    "the CA was published"
                );
                Ok(Done::Written)
            }
            Action::Serve { authority, until } => {
                let now = self.objects.clock.now();
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
                    "a leaf was minted and is served"
                );
                self.memory.leaf = Some(leaf);
                Ok(Done::Serving)
            }
        }
    }

    fn state(&self, content: Content) -> Result<State, ActionError> {
        content::state(content, self.options, self.objects.clock.now())
            .map_err(ActionError::Authority)
    }

    /// Notes a state that was written, in the place of `found`.
    fn written(&mut self, state: &State, found: Option<&Secret>, what: &'static str) {
        self.notices.journal.note(match &self.complaint {
            Some(complaint) if self.repairs => {
                let ours = self.options.field_manager();
                let manager = found.and_then(|secret| last_writer(secret, &ours));
                let name = &self.options.secret_name;
                Some(News::secret_restored(name, complaint, manager.as_deref()))
            }
            _ => News::state_written(self.memory.state.as_ref(), state),
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

    /// Remembers whether the write was forbidden.
    fn heed<T>(
        &mut self,
        verb: &'static str,
        object: &str,
        outcome: Result<T, CallError>,
    ) -> Result<T, ActionError> {
        self.writes.heed(verb, object, outcome.as_ref().err());
        outcome.map_err(ActionError::Call)
    }

    fn report(&self, observation: &Observation) {
        let now = self.objects.clock.now();
        let state = self.memory.state.as_ref();
        let leaf = self.memory.leaf.as_ref();
        self.status.send_if_modified(|status| {
            let before = status.clone();
            status.phase = state.map(|state| state.phase.word());
            status.phase_since = state.map(|state| state.phase_since);
            status.generation = state.map(|state| state.generation);
            status.entries = observation.entries().count();
            status.trusted = leaf.is_some_and(|leaf| observation.trusts(leaf.issuer(), now));
            status.foreign = self.memory.foreign();
            status.revocations.clone_from(&self.notices.revocations);
            status.denied = self.writes.denied();
            status.clock_ahead = self.objects.clock.ahead();
            status.overwrites.clone_from(self.notices.contention.overwrites());
            status.probe = self.notices.probe();
            status.authority_not_after = state.map(|state| state.active.ca().not_after());
            status.leaf_not_after = leaf.map(|leaf| leaf.lifetime().not_after);
            *status != before
        });
    }

    /// Tells what went wrong, each time that it is something else.
    fn tell(&self, troubles: &[String]) {
        self.status.send_if_modified(|status| status.heed_troubles(troubles));
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

/// Why an action was not carried out.
#[derive(Debug, thiserror::Error)]
enum ActionError {
    #[error(transparent)]
    Call(CallError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("no certificate can be made: {0}")]
    Authority(#[source] AuthorityError),
    #[error("the minted leaf cannot be served: {0}")]
    Leaf(#[source] IdentityError),
}

/// The longest time between two looks while the API server is away: what happened meanwhile is repaired soon
/// after it is back, and nobody else bears the load.
const OUTAGE: Duration = Duration::from_secs(2);
/// How long a look waits for further events, and the least distance between two.
const SPACING: Duration = Duration::from_millis(100);
