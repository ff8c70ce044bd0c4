//! One replica's part in the upkeep: looking, deciding, doing.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use tokio::sync::{Notify, watch};

use super::objects::{CallError, Objects, configuration_path};
use super::refusals::Refusals;
use crate::authority::{Authority, AuthorityError, Entropy, Lifetime};
use crate::options::{Options, Parameters};
use crate::requests::Requests;
use crate::rotation::{
    Action, Configuration, Content, Decision, Memory, Observation, decide, is_fresh, leaf_lifetime,
    prepare,
};
use crate::secret::State;
use crate::server_names::ServerNames;
use crate::serving::{Identity, IdentityError, ServingCertificate};
use crate::status::Status;
use crate::write_budget::WriteBudget;

/// One replica's part in the upkeep.
pub(super) struct Upkeep<'a> {
    objects: &'a Objects,
    options: &'a Options,
    names: ServerNames,
    certificate: &'a ServingCertificate,
    status: watch::Sender<Status>,
    memory: Memory,
    budgets: BTreeMap<String, WriteBudget>,
    /// The generation of each webhook configuration when its bundles were last seen to be right.
    published: BTreeMap<String, i64>,
    refusals: Refusals,
    /// What was wrong with the Secret at the latest look.
    complaint: Option<String>,
}

/// How a look at the cluster went.
#[derive(Default)]
struct Outcome {
    /// Something was written, or somebody else was faster: look again at once.
    again: bool,
    /// A write has to wait for its budget.
    wait: Option<Duration>,
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
        status: watch::Sender<Status>,
    ) -> Self {
        Self {
            objects,
            options,
            names,
            certificate,
            status,
            memory: Memory::default(),
            budgets: BTreeMap::new(),
            published: BTreeMap::new(),
            refusals: Refusals::default(),
            complaint: None,
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
                backoff.next().unwrap_or(tick).min(tick)
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
                outcome.troubles.push(error.to_string());
                return outcome;
            }
        };
        let mut configurations = Vec::new();
        for name in &self.options.webhook_configurations {
            match self.objects.configuration(name).await {
                Ok(found) => configurations.extend(found),
                Err(error) => outcome.troubles.push(error.to_string()),
            }
        }
        let is_complete = outcome.troubles.is_empty();
        let observation = Observation { secret, configurations, is_complete };
        let parameters = &self.options.parameters;
        let Decision { actions, complaint } =
            decide(&mut self.memory, &observation, &self.names, parameters, Timestamp::now());
        if complaint != self.complaint {
            if let Some(complaint) = &complaint {
                tracing::warn!(secret = self.options.secret_name, "{complaint}");
            }
            self.complaint = complaint;
        }
        self.count_others(&observation, &actions);
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
                    if let ActionError::Budget { wait, .. } = error {
                        outcome.wait = Some(outcome.wait.map_or(wait, |other| wait.min(other)));
                    }
                    outcome.troubles.push(error.to_string());
                }
            }
        }
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
                self.spend("create", self.objects.secret_path())?;
                let state = self.state(content)?;
                let secret = state.write(self.empty_secret());
                let created = self.objects.create_secret(&secret).await;
                self.heed("create", &self.objects.secret_path(), created)?;
                self.written(&state, "the CA's Secret was created");
                Ok(Done::Written)
            }
            Action::ReplaceSecret(content) => {
                self.spend("update", self.objects.secret_path())?;
                let state = self.state(content)?;
                let mut replacement = state.write(secret.cloned().unwrap_or_default());
                if let Some(before) = &self.memory.state {
                    Requests::fulfil(&mut replacement, before, &state);
                }
                let replaced = self.objects.replace_secret(&replacement).await;
                self.heed("update", &self.objects.secret_path(), replaced)?;
                self.written(&state, "the CA's Secret was written again");
                Ok(Done::Written)
            }
            Action::PatchBundle { name, uid, resource_version, entries } => {
                self.spend("patch", configuration_path(&name))?;
                let version = (uid.as_str(), resource_version.as_str());
                let published = self.objects.publish(&name, version, &entries).await;
                self.count_patch(&name, published.as_ref());
                let published = self.heed("patch", &configuration_path(&name), published);
                match &published {
                    Ok(generation) => self.published.insert(name.clone(), *generation),
                    // Whoever was faster, this attempt has been paid for.
                    Err(_) => self.published.remove(&name),
                };
                published?;
                tracing::info!(
                    configuration = name,
                    entries = entries.len(),
                    "the CA was published"
                );
                Ok(Done::Written)
            }
            Action::Serve { authority, until } => {
                let lifetime = leaf_lifetime(until, &self.options.parameters, Timestamp::now());
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
        let now = Timestamp::now();
        let lifetime = Lifetime::starting(now, self.options.parameters.authority_lifetime);
        let entropy = Entropy::draw().map_err(ActionError::Authority)?;
        let state = match content {
            Content::State(state) => Ok(state),
            Content::Renewed(state) => {
                state.active.renewed(lifetime, entropy).map(|active| State { active, ..state })
            }
            Content::Prepared(state) => {
                Authority::create(&self.options.install, state.generation, lifetime, entropy)
                    .map(|next| prepare(state, next, now))
            }
            Content::New { generation } => {
                Authority::create(&self.options.install, generation, lifetime, entropy)
                    .map(|active| State::new(active, generation, now))
            }
        };
        state.map_err(ActionError::Authority)
    }

    fn empty_secret(&self) -> Secret {
        let labels = [
            ("app.kubernetes.io/managed-by", self.options.field_manager()),
            ("app.kubernetes.io/part-of", self.options.install.clone()),
        ];
        Secret {
            metadata: ObjectMeta {
                name: Some(self.options.secret_name.clone()),
                namespace: Some(self.options.namespace.clone()),
                labels: Some(labels.map(|(name, value)| (name.to_owned(), value)).into()),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        }
    }

    fn written(&mut self, state: &State, what: &'static str) {
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

    fn count_patch(&self, name: &str, published: Result<&i64, &CallError>) {
        self.status.send_modify(|status| {
            let patches = status.patches.entry(name.to_owned()).or_default();
            patches.attempts += 1;
            match published {
                Ok(_) => {}
                Err(error) if error.is_conflict() => patches.retries += 1,
                Err(_) => patches.failures += 1,
            }
        });
    }

    /// Takes a write from the object's budget, unless it was forbidden a moment ago.
    fn spend(&mut self, verb: &'static str, object: String) -> Result<(), ActionError> {
        let now = Timestamp::now();
        self.refusals.check(verb, &object, now).map_err(ActionError::Forbidden)?;
        self.budget(&object, now)
            .take(now)
            .map_err(|wait| ActionError::Budget { object, wait: wait.unsigned_abs() })
    }

    /// Takes the repairs of other replicas from the budget too, so that all of them together write
    /// no more than one may.
    ///
    /// A configuration that is right in another generation than the last that was right, without a
    /// write of this one, was repaired by somebody else.
    fn count_others(&mut self, observation: &Observation, actions: &[Action]) {
        let now = Timestamp::now();
        for Configuration { name, generation, .. } in &observation.configurations {
            let is_wrong = |action: &Action| matches!(action, Action::PatchBundle { name: wrong, .. } if wrong == name);
            if actions.iter().any(is_wrong) {
                continue;
            }
            let before = self.published.insert(name.clone(), *generation);
            if before.is_some_and(|before| before != *generation) {
                // Where nothing is left, the next write has to wait all the same.
                let _ = self.budget(&configuration_path(name), now).take(now);
            }
        }
    }

    fn budget(&mut self, object: &str, now: Timestamp) -> &mut WriteBudget {
        let Parameters { write_burst, write_interval, .. } = self.options.parameters;
        self.budgets
            .entry(object.to_owned())
            .or_insert_with(|| WriteBudget::new(write_burst, write_interval, now))
    }

    /// Remembers whether the write was forbidden.
    fn heed<T>(
        &mut self,
        verb: &'static str,
        object: &str,
        outcome: Result<T, CallError>,
    ) -> Result<T, ActionError> {
        let interval = self.options.parameters.denied_interval;
        self.refusals.heed(verb, object, outcome.as_ref().err(), interval, Timestamp::now());
        outcome.map_err(ActionError::Call)
    }

    fn report(&self, observation: &Observation) {
        let now = Timestamp::now();
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
            status.denied = self.refusals.list();
            status.authority_not_after = state.map(|state| state.active.ca().not_after());
            status.leaf_not_after = leaf.map(|leaf| leaf.lifetime().not_after);
            *status != before
        });
    }

    /// Tells what went wrong, each time that it is something else.
    fn tell(&self, troubles: &[String]) {
        let last_error = (!troubles.is_empty()).then(|| troubles.join("; "));
        self.status.send_if_modified(|status| {
            let is_news = status.last_error != last_error;
            if is_news && let Some(error) = &last_error {
                tracing::warn!("{error}");
            }
            status.errors += u64::from(last_error.is_some());
            status.last_error = last_error;
            is_news
        });
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
    #[error("{0}")]
    Forbidden(String),
    #[error("no certificate can be made: {0}")]
    Authority(#[source] AuthorityError),
    #[error("the minted leaf cannot be served: {0}")]
    Leaf(#[source] IdentityError),
    #[error("{object} changes too often; hint: see who else writes to it")]
    Budget { object: String, wait: Duration },
}

/// How long a look waits for further events, and the least distance between two.
const SPACING: Duration = Duration::from_millis(100);
