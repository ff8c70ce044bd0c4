//! What to do next, given what the cluster holds: the Secret is repaired before anything is
//! published, a leaf is chosen by who trusts it, and a CA is replaced in three steps.
//!
//! [`decide`] takes what was just read from the API server and the clock, and returns actions; it
//! does nothing itself.

#[cfg(test)]
mod convergence;
#[cfg(test)]
mod interference;
mod memory;
#[cfg(test)]
mod model;
mod observation;
mod revocation;
#[cfg(test)]
mod revoked;
mod rules;
mod settled;
#[cfg(test)]
pub(crate) mod tests;

use jiff::Timestamp;

use crate::authority::Authority;
use crate::bundle::{Bundle, TrustedCa};
use crate::clock;
use crate::options::Parameters;
use crate::requests::Requests;
use crate::secret::{Phase, State, immutable_complaint, is_immutable};
use crate::server_names::ServerNames;
pub use memory::Memory;
pub use observation::{Configuration, Entry, Observation};
pub use revocation::Revocation;
use rules::{Kept, Rules};
pub use rules::{is_fresh, leaf_lifetime, prepare, rotates_at};
use settled::settle;

/// Decides what follows from `observation`, and remembers what has to be remembered of it.
///
/// Nothing is removed from a `caBundle` but what expired, what the Secret has retired, and what the
/// Secret, read live for this very decision, has not known for as long as
/// [`ForeignCa`](crate::options::ForeignCa) says. `now` is an instant after the reading, by the
/// clock of the API server; no CA is made while this machine's is far from that.
pub fn decide(
    memory: &mut Memory,
    observation: &Observation,
    names: &ServerNames,
    parameters: &Parameters,
    now: Timestamp,
) -> Decision {
    decide_by::<Kept>(memory, observation, names, parameters, now)
}

/// One step that brings the cluster or this replica closer to what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates the Secret, unless somebody else has meanwhile.
    CreateSecret(Content),
    /// Replaces the Secret that was observed, unless somebody has changed it meanwhile.
    ReplaceSecret(Content),
    /// Publishes a bundle in every managed entry of one configuration.
    PatchBundle(BundlePatch),
    /// Mints a leaf and serves it.
    Serve {
        /// The CA that signs it.
        authority: Authority,
        /// The instant that the leaf may not outlive, where the CA is about to be dropped.
        until: Option<Timestamp>,
    },
}

impl Action {
    /// What it writes into a webhook configuration, if it does.
    pub(crate) fn patch(&self) -> Option<&BundlePatch> {
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

/// The bundles that one webhook configuration shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundlePatch {
    /// The name of the configuration.
    pub name: String,
    /// The object that was observed; another one under that name is not touched.
    pub uid: String,
    /// What it was when it was observed; somebody else's write in between comes first. Replicas
    /// that see the same wrong bundle thus write once between them.
    pub resource_version: String,
    /// Each managed entry's name and the bundle that it shall have.
    pub entries: Vec<(String, Bundle)>,
}

/// What is to be written into the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A state that is at hand.
    State(State),
    /// A state with a new certificate for its CA's key.
    Renewed(State),
    /// A state to which a next CA is added; it is numbered by the state's generation.
    Prepared(State),
    /// A new CA of this generation.
    New {
        /// The generation.
        generation: u64,
    },
}

impl Content {
    /// Tells whether a CA or a certificate of one is made for it.
    pub(crate) fn is_new_ca(&self) -> bool {
        match self {
            Self::State(_) => false,
            Self::Renewed(_) | Self::Prepared(_) | Self::New { .. } => true,
        }
    }
}

/// The outcome of one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// What was found wrong with the Secret, for people to read.
    pub complaint: Option<String>,
    /// Whether the Secret is written because of what somebody did to it.
    pub repairs: bool,
}

fn decide_by<R: Rules>(
    memory: &mut Memory,
    observation: &Observation,
    names: &ServerNames,
    parameters: &Parameters,
    now: Timestamp,
) -> Decision {
    let settled = settle(memory, observation.secret.as_ref(), parameters, now);
    let mut actions: Vec<_> = settled.write.into_iter().collect();
    let mut complaint = settled.complaint;
    let repairs = complaint.is_some();
    if let Some(state) = memory.state.clone() {
        let known = R::trusted(&state);
        memory.watch(&state, &known, observation, R::is_unchanged, now);
        // A Secret that was damaged has lost its requests too, and they are written back.
        let asked = settled.is_reliable.then(|| observation.requests());
        memory.heed(asked.as_ref(), now);
        if settled.is_reliable && actions.is_empty() {
            let requests = observation.requests();
            let step = step::<R>(&state, &requests, memory, observation, parameters, now);
            actions.extend(step.map(Action::ReplaceSecret));
            complaint = requests.complaint_about(&state);
        }
        let keeps =
            |foreign: &TrustedCa| R::keeps(memory, foreign, settled.is_reliable, parameters, now);
        for configuration in &observation.configurations {
            actions.extend(publish(configuration, &known, keeps).map(Action::PatchBundle));
        }
        let authority = R::choose(&state, memory, observation, parameters, now);
        let until = R::limit(&state, authority, parameters);
        // A leaf of an expired CA would be expired too; its renewal comes first.
        if now < authority.ca().not_after()
            && !memory.has_leaf_of(authority, names, now)
            && !R::keeps_leaf(&state, memory, observation, parameters, now)
        {
            actions.push(Action::Serve { authority: authority.clone(), until });
        }
    }
    let mut complain = |further: String| {
        complaint = Some(match complaint.take() {
            Some(complaint) => format!("{complaint}; {further}"),
            None => further,
        });
    };
    if clock::is_intolerable(observation.clock_ahead) {
        let before = actions.len();
        actions.retain(|action| !action.makes_a_ca());
        if actions.len() < before {
            complain(clock::complaint(observation.clock_ahead));
        }
    }
    if let Some(secret) = observation.secret.as_ref().filter(|secret| is_immutable(secret)) {
        // The API server refuses any change of it.
        actions.retain(|action| !matches!(action, Action::ReplaceSecret(_)));
        complain(immutable_complaint(secret));
    }
    Decision { actions, complaint, repairs }
}

/// The next step of the rotation, if it is due.
fn step<R: Rules>(
    state: &State,
    requests: &Requests,
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

/// Decides whether the bundles of a configuration have to be written, all of them in one request:
/// an entry that is left out of a server-side apply loses what this manager had applied to it.
pub(crate) fn publish(
    configuration: &Configuration,
    known: &Bundle,
    keeps: impl Fn(&TrustedCa) -> bool,
) -> Option<BundlePatch> {
    let wanted: Vec<_> = configuration
        .entries
        .iter()
        .map(|entry| {
            // What does not fit in falls off the end, and the CAs of this installation, as it wrote
            // them, come before those that others have added.
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
