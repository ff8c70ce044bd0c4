//! Decisions of a replica: repair of the Secret before any publication, choice of the leaf by what
//! the entries trust, and replacement of a CA in three steps.
//!
//! [`decide`] is a pure function of an observation and the time; it returns actions.

pub mod clock_skew;
#[cfg(test)]
pub(crate) mod fixtures;
mod memory;
mod observation;
mod revocation;
mod rules;
mod secret_check;

use jiff::Timestamp;

use crate::authority::Authority;
use crate::bundle::{Bundle, TrustedCa};
use crate::options::Parameters;
use crate::secret::rotation_requests::RotationRequests;
use crate::secret::{Phase, State, immutable_message, is_immutable};
use crate::server_names::ServerNames;
pub use memory::Memory;
pub use observation::{Configuration, Entry, Observation, ProbeCause, PublishedRoots};
pub use revocation::Revocation;
pub use rules::{leaf_lifetime, rotates_at};
use secret_check::check_secret;

/// Rules as a type parameter, for the model in `tests/rotation`; not part of the API.
#[doc(hidden)]
pub mod model {
    pub use super::decide_by;
    pub use super::memory::Version;
    pub use super::rules::{ProductionRules, Rules};
}
pub(crate) use model::{ProductionRules, Rules};

/// Decides on actions after an observation, and updates the memory.
///
/// A CA is removed from a `caBundle` only if it has expired, if the Secret has retired it, or if a
/// live read of the Secret has not contained it for as long as
/// [`ForeignCa`](crate::options::ForeignCa) says. `now` is an instant after the observation, by the
/// API server's clock. No CA is made while this machine's clock differs too much from that.
pub fn decide(
    memory: &mut Memory,
    observation: &Observation,
    names: &ServerNames,
    parameters: &Parameters,
    now: Timestamp,
) -> Decision {
    decide_by::<ProductionRules>(memory, observation, names, parameters, now)
}

/// Step towards the desired state of the cluster or of this replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates the Secret, unless another writer was faster.
    CreateSecret(Content),
    /// Replaces the observed Secret, unless another writer was faster.
    ReplaceSecret(Content),
    /// Publishes a bundle in every managed entry of one configuration.
    PatchBundle(BundlePatch),
    /// Mints a leaf and serves it.
    Serve {
        /// Signing CA.
        authority: Authority,
        /// Latest end of the leaf's validity, if the CA is about to be dropped.
        until: Option<Timestamp>,
    },
}

impl Action {
    /// Patch of a webhook configuration, if the action is one.
    pub fn patch(&self) -> Option<&BundlePatch> {
        match self {
            Self::PatchBundle(patch) => Some(patch),
            Self::CreateSecret(_) | Self::ReplaceSecret(_) | Self::Serve { .. } => None,
        }
    }

    fn makes_a_ca(&self) -> bool {
        match self {
            Self::CreateSecret(content) | Self::ReplaceSecret(content) => content.is_new_ca(),
            Self::PatchBundle(_) | Self::Serve { .. } => false,
        }
    }
}

/// Desired bundles of one webhook configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundlePatch {
    /// Name of the configuration.
    pub name: String,
    /// UID of the observed object; another object with its name is not changed.
    pub uid: String,
    /// Observed resource version; a write in between is a conflict. So replicas that see the same
    /// wrong bundle write once in all.
    pub resource_version: String,
    /// Name and desired bundle of each managed entry.
    pub entries: Vec<(String, Bundle)>,
}

/// New content of the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A known state.
    State(State),
    /// A state whose CA gets a new certificate for its key.
    Renewed(State),
    /// A state to which a next CA is added, numbered by its generation.
    Prepared(State),
    /// A new CA.
    New {
        /// Number of the CA.
        generation: u64,
    },
}

impl Content {
    /// True if a CA certificate must be made for it.
    pub(crate) fn is_new_ca(&self) -> bool {
        match self {
            Self::State(_) => false,
            Self::Renewed(_) | Self::Prepared(_) | Self::New { .. } => true,
        }
    }
}

/// Decision after an observation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Actions, in order.
    pub actions: Vec<Action>,
    /// Problem of the Secret, if it has one.
    pub problem: Option<String>,
    /// True if the Secret is written to undo a change by another writer.
    pub repairs: bool,
}

/// Decides by rules that a test may mutate.
pub fn decide_by<R: Rules>(
    memory: &mut Memory,
    observation: &Observation,
    names: &ServerNames,
    parameters: &Parameters,
    now: Timestamp,
) -> Decision {
    let checked = check_secret(memory, observation.secret.as_ref(), parameters, now);
    let mut actions: Vec<_> = checked.write.into_iter().collect();
    let mut problem = checked.problem;
    let repairs = problem.is_some();
    if let Some(state) = memory.state.clone() {
        let known = R::trusted(&state);
        memory.record_configurations(&state, &known, observation, R::is_unchanged, now);
        // A damaged Secret has lost its requests too; they are restored.
        let asked = checked.is_reliable.then(|| observation.requests());
        memory.record_requests(asked.as_ref(), now);
        if checked.is_reliable && actions.is_empty() {
            let requests = observation.requests();
            let step = step::<R>(&state, &requests, memory, observation, parameters, now);
            actions.extend(step.map(Action::ReplaceSecret));
            problem = requests.problem_with(&state);
        }
        let keeps =
            |foreign: &TrustedCa| R::keeps(memory, foreign, checked.is_reliable, parameters, now);
        for configuration in &observation.configurations {
            actions.extend(publish(configuration, &known, keeps).map(Action::PatchBundle));
        }
        let authority = R::choose(&state, memory, observation, parameters, now);
        let until = R::limit(&state, authority, parameters);
        // The leaf of an expired CA would be expired too; the CA's renewal comes first.
        if now < authority.ca().not_after()
            && !memory.has_leaf_of(authority, names, now)
            && !R::keeps_leaf(&state, memory, observation, parameters, now)
        {
            actions.push(Action::Serve { authority: authority.clone(), until });
        }
    }
    let mut complain = |further: String| {
        problem = Some(match problem.take() {
            Some(problem) => format!("{problem}; {further}"),
            None => further,
        });
    };
    if clock_skew::is_intolerable(observation.clock_ahead) {
        let before = actions.len();
        actions.retain(|action| !action.makes_a_ca());
        if actions.len() < before {
            complain(clock_skew::message(observation.clock_ahead));
        }
    }
    if let Some(secret) = observation.secret.as_ref().filter(|secret| is_immutable(secret)) {
        // The API server rejects any change of it.
        actions.retain(|action| !matches!(action, Action::ReplaceSecret(_)));
        complain(immutable_message(secret));
    }
    Decision { actions, problem, repairs }
}

/// Next step of the rotation, if it is due.
fn step<R: Rules>(
    state: &State,
    requests: &RotationRequests,
    memory: &Memory,
    seen: &Observation,
    parameters: &Parameters,
    now: Timestamp,
) -> Option<Content> {
    let without = |dropped: &Authority| {
        let state = state.clone();
        let revoked = requests.revokes(dropped.ca());
        let state = if revoked { state.revoking(dropped.ca()) } else { state };
        state.retired(now)
    };
    let next = match &state.phase {
        Phase::Steady => {
            return R::may_prepare(state, requests, parameters, now)
                .then(|| Content::Prepared(state.clone().after(0)));
        }
        Phase::Prepared { next } if R::may_drop(next, requests) => without(next),
        Phase::Prepared { next }
            if R::may_activate(memory, parameters, now)
                && R::is_probed(seen.probe, memory, parameters, now) =>
        {
            state.clone().activated(next.clone(), now)
        }
        Phase::Activated { retiring }
            if R::may_return(state, retiring, requests, seen, parameters, now) =>
        {
            state.clone().activated(retiring.clone(), now)
        }
        Phase::Activated { retiring }
            if R::stays(state, retiring, requests, memory, parameters, now) =>
        {
            state.clone().prolonged(now)
        }
        Phase::Activated { retiring }
            if R::may_retire(state, retiring, requests, memory, parameters, now) =>
        {
            without(retiring)
        }
        Phase::Prepared { .. } | Phase::Activated { .. } => return None,
    };
    Some(Content::State(next))
}

/// Patches all bundles of a configuration in one request, if any of them differs: an entry left out
/// of a server-side apply loses what this manager applied to it.
pub(crate) fn publish(
    configuration: &Configuration,
    known: &Bundle,
    keeps: impl Fn(&TrustedCa) -> bool,
) -> Option<BundlePatch> {
    let wanted: Vec<_> = configuration
        .entries
        .iter()
        .map(|entry| {
            // The end of a full bundle is cut off, so CAs of this installation precede foreign
            // ones.
            let kept = entry.bundle.beyond(known).filter(|ca| keeps(ca)).cloned();
            (entry.name.clone(), known.clone().followed_by(kept))
        })
        .collect();
    let differs = configuration
        .entries
        .iter()
        .zip(&wanted)
        .any(|(entry, (_, bundle))| !entry.bundle.is_same_set(bundle));
    differs.then(|| BundlePatch {
        name: configuration.name.clone(),
        uid: configuration.uid.clone(),
        resource_version: configuration.resource_version.clone(),
        entries: wanted,
    })
}
