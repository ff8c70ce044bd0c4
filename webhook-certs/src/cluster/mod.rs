//! The upkeep of the Secret and the webhook configurations in the API server.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod objects;
mod refusals;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use tokio::sync::{Notify, watch};

use crate::authority::{Authority, AuthorityError, Entropy, Lifetime};
use crate::bundle::TrustedCa;
pub use crate::options::{ForeignCa, Options, Parameters};
use crate::requests::{REVOKE, ROTATE, ROTATE_NOW, Requests};
use crate::rotation::{
    Action, Content, Decision, Memory, Observation, decide, is_fresh, leaf_lifetime, prepare,
};
use crate::secret::{SecretError, State};
use crate::server_names::{ServerNames, ServerNamesError};
use crate::serving::{Identity, IdentityError, ServingCertificate};
use crate::status::Status;
use crate::write_budget::WriteBudget;
pub use objects::CallError;
use objects::{Objects, configuration_path};
use refusals::Refusals;

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
    let objects = Objects::new(client, options.clone());
    let changed = Notify::new();
    let changes = pin!(objects.changes().for_each(async |()| changed.notify_one()));
    let mut upkeep = Upkeep {
        objects: &objects,
        options: &options,
        names,
        certificate: &certificate,
        status,
        memory: Memory::default(),
        budgets: BTreeMap::new(),
        refusals: Refusals::default(),
        complaint: None,
    };
    tokio::select! {
        never = upkeep.run(&changed) => match never {},
        // Watches restart themselves; were they to end, the ticks alone would carry on.
        () = changes => {}
    }
    match upkeep.run(&changed).await {}
}

/// Looks at the Secret and the webhook configurations once, and changes nothing.
pub async fn observe(client: Client, options: &Options) -> Result<Observation, CallError> {
    let objects = Objects::new(client, options.clone());
    let secret = objects.secret().await?;
    let mut configurations = Vec::new();
    for name in &options.webhook_configurations {
        configurations.extend(objects.configuration(name).await?);
    }
    Ok(Observation { secret, configurations, is_complete: true })
}

/// Asks the replicas for a new CA, or, with `revoke`, to withdraw trust from the one that signs as
/// soon as there is another one; returns the CA that is to be replaced.
pub async fn rotate(
    client: Client,
    options: &Options,
    revoke: bool,
) -> Result<TrustedCa, RotateError> {
    let objects = Objects::new(client, options.clone());
    let secret = objects.secret().await?.ok_or_else(|| RotateError::NoSecret {
        name: format!("{}/{}", options.namespace, options.secret_name),
    })?;
    let ca = State::parse(&secret)?.active.ca().clone();
    let (annotation, value) = match (revoke, ca.generation()) {
        (false, _) => (ROTATE, ROTATE_NOW.to_owned()),
        (true, Some(number)) => (REVOKE, number.to_string()),
        (true, None) => return Err(RotateError::NoNumber { name: ca.name().to_owned() }),
    };
    objects.annotate_secret(&secret, annotation, &value).await?;
    Ok(ca)
}

/// Why no rotation could be asked for.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    /// The API server did not do as it was asked.
    #[error(transparent)]
    Call(#[from] CallError),
    /// There is nothing to rotate.
    #[error("there is no Secret {name}")]
    NoSecret {
        /// Its namespace and name.
        name: String,
    },
    /// The Secret holds no CA; replicas make one.
    #[error("the Secret cannot be used: {0}")]
    Secret(#[from] SecretError),
    /// The CA was not made by this program, so that nothing calls it by a number.
    #[error("the CA `{name}` has no number at the end of its name to revoke it by")]
    NoNumber {
        /// The subject of the CA.
        name: String,
    },
}

/// Why no certificate can be kept up.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The options give a name that no certificate can carry.
    #[error("the leaf's names, made of service, namespace, cluster domain and extra names: {0}")]
    Names(#[source] ServerNamesError),
}

/// One replica's part in the upkeep.
struct Upkeep<'a> {
    objects: &'a Objects,
    options: &'a Options,
    names: ServerNames,
    certificate: &'a ServingCertificate,
    status: watch::Sender<Status>,
    memory: Memory,
    budgets: BTreeMap<String, WriteBudget>,
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

impl Upkeep<'_> {
    async fn run(&mut self, changed: &Notify) -> Infallible {
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
            Action::PatchBundle { name, uid, entries } => {
                self.spend("patch", configuration_path(&name))?;
                let published = self.objects.publish(&name, &uid, &entries).await;
                self.count_patch(&name, published.as_ref());
                self.heed("patch", &configuration_path(&name), published)?;
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

    fn count_patch(&self, name: &str, published: Result<&(), &CallError>) {
        self.status.send_modify(|status| {
            let patches = status.patches.entry(name.to_owned()).or_default();
            patches.attempts += 1;
            match published {
                Ok(()) => {}
                Err(error) if error.is_conflict() => patches.retries += 1,
                Err(_) => patches.failures += 1,
            }
        });
    }

    /// Takes a write from the object's budget, unless it was forbidden a moment ago.
    fn spend(&mut self, verb: &'static str, object: String) -> Result<(), ActionError> {
        let now = Timestamp::now();
        self.refusals.check(verb, &object, now).map_err(ActionError::Forbidden)?;
        let Parameters { write_burst, write_interval, .. } = self.options.parameters;
        let budget = self
            .budgets
            .entry(object.clone())
            .or_insert_with(|| WriteBudget::new(write_burst, write_interval, now));
        budget.take(now).map_err(|wait| ActionError::Budget { object, wait: wait.unsigned_abs() })
    }

    /// Remembers whether the write was forbidden.
    fn heed(
        &mut self,
        verb: &'static str,
        object: &str,
        outcome: Result<(), CallError>,
    ) -> Result<(), ActionError> {
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
