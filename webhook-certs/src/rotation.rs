//! What to do next, given what the cluster holds: the Secret is repaired before anything is
//! published, and a leaf is chosen by who trusts it.
//!
//! [`decide`] takes what was just read from the API server and the clock, and returns actions; it
//! does nothing itself.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;

use crate::authority::{Authority, Leaf};
use crate::bundle::{Bundle, TrustedCa};
use crate::cause::with_causes;
use crate::options::Parameters;
use crate::secret::{State, generation_of};
use crate::server_names::ServerNames;

/// What a replica remembers from one look at the cluster to the next.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The newest state of the Secret that was seen.
    pub state: Option<State>,
    /// The leaf that is being served.
    pub leaf: Option<Leaf>,
    /// Since when each CA that the Secret does not know has been seen in a webhook configuration.
    foreign: BTreeMap<Vec<u8>, Timestamp>,
}

/// What one look at the cluster has shown; all of it is read live.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The Secret, where it exists.
    pub secret: Option<Secret>,
    /// The webhook configurations that exist and could be read.
    pub configurations: Vec<Configuration>,
}

/// The entries of one MutatingWebhookConfiguration that are ours to keep up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The name of the object.
    pub name: String,
    /// Its identity; an object that was created anew under the same name has another one.
    pub uid: String,
    /// The managed entries.
    pub entries: Vec<Entry>,
}

/// A webhook entry and the CAs that API servers trust for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the entry, unique in its configuration.
    pub name: String,
    /// What its `caBundle` holds.
    pub bundle: Bundle,
}

/// One step that brings the cluster or this replica closer to what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates the Secret, unless somebody else has meanwhile.
    CreateSecret(Content),
    /// Replaces the Secret that was observed, unless somebody has changed it meanwhile.
    ReplaceSecret(Content),
    /// Publishes a bundle in every managed entry of one configuration.
    PatchBundle {
        /// The name of the configuration.
        name: String,
        /// The object that was observed; another one under that name is not touched.
        uid: String,
        /// Each managed entry's name and the bundle that it shall have.
        entries: Vec<(String, Bundle)>,
    },
    /// Mints a leaf and serves it.
    Serve {
        /// The CA that signs it.
        authority: Authority,
        /// The instant that the leaf may not outlive, where the CA is about to be dropped.
        until: Option<Timestamp>,
    },
}

/// What is to be written into the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A state that is at hand.
    State(State),
    /// A state with a new certificate for its CA's key.
    Renewed(State),
    /// A new CA of this generation.
    New {
        /// The generation.
        generation: u64,
    },
}

/// The outcome of one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// What was found wrong with the Secret, for people to read.
    pub complaint: Option<String>,
}

/// Decides what follows from `observation`, and remembers what has to be remembered of it.
///
/// Nothing is removed from a `caBundle` but what expired or what the Secret, read live for this
/// very decision, has not known for [`Parameters::retire_delay`].
pub fn decide(
    memory: &mut Memory,
    observation: &Observation,
    names: &ServerNames,
    parameters: &Parameters,
    now: Timestamp,
) -> Decision {
    let settled = settle(memory, observation.secret.as_ref(), parameters, now);
    let mut actions: Vec<_> = settled.write.into_iter().collect();
    if let Some(state) = memory.state.clone() {
        let known = state.bundle();
        memory.watch_foreign(&known, &observation.configurations, now);
        let keeps = |foreign: &TrustedCa| {
            foreign.not_after() >= now
                && !(settled.reliable && memory.is_stale(foreign, parameters.retire_delay, now))
        };
        for configuration in &observation.configurations {
            actions.extend(publish(configuration, &known, keeps));
        }
        let authority = choose(&state, &observation.configurations, parameters, now);
        let until = limit(&state, authority, parameters);
        if !memory.has_leaf_of(authority, names, now) {
            actions.push(Action::Serve {
                authority: authority.clone(),
                until,
            });
        }
    }
    Decision {
        actions,
        complaint: settled.complaint,
    }
}

/// Chooses the CA whose leaf is served: the active one where it is trusted by every entry, else
/// the other one where that is.
///
/// It never prefers the newest: one that is published may not yet have reached every API server.
pub fn choose<'a>(
    state: &'a State,
    configurations: &[Configuration],
    parameters: &Parameters,
    now: Timestamp,
) -> &'a Authority {
    if is_trusted(state.active.ca(), configurations, now) {
        return &state.active;
    }
    state
        .phase
        .other()
        .filter(|other| is_trusted(other.ca(), configurations, now))
        .filter(|other| limit(state, other, parameters).is_none_or(|limit| now < limit))
        .unwrap_or(&state.active)
}

/// Tells whether every managed entry trusts leaves of `ca`; true where there is no entry.
pub fn is_trusted(ca: &TrustedCa, configurations: &[Configuration], now: Timestamp) -> bool {
    configurations
        .iter()
        .flat_map(|configuration| &configuration.entries)
        .all(|entry| entry.bundle.trusts(ca, now))
}

impl Memory {
    fn watch_foreign(&mut self, known: &Bundle, configurations: &[Configuration], now: Timestamp) {
        let present: Vec<&[u8]> = configurations
            .iter()
            .flat_map(|configuration| &configuration.entries)
            .flat_map(|entry| entry.bundle.beyond(known))
            .map(|ca| ca.der().as_ref())
            .collect();
        self.foreign
            .retain(|der, _| present.contains(&der.as_slice()));
        for der in present {
            self.foreign.entry(der.to_vec()).or_insert(now);
        }
    }

    fn is_stale(&self, foreign: &TrustedCa, delay: SignedDuration, now: Timestamp) -> bool {
        self.foreign
            .get(foreign.der().as_ref())
            .is_some_and(|since| now.duration_since(*since) >= delay)
    }

    fn has_leaf_of(&self, authority: &Authority, names: &ServerNames, now: Timestamp) -> bool {
        self.leaf.as_ref().is_some_and(|leaf| {
            leaf.issuer().is_same_signer(authority.ca())
                && leaf.names() == names
                && leaf.lifetime().not_before <= now
                && now < leaf.renew_at()
        })
    }
}

/// How the Secret compares with what is remembered.
struct Settled {
    /// How the Secret has to be written, if it has to.
    write: Option<Action>,
    /// What was wrong with it.
    complaint: Option<String>,
    /// Whether it may be relied upon when a CA is to be dropped.
    reliable: bool,
}

impl Settled {
    fn repair(write: Action, complaint: String) -> Self {
        Self {
            write: Some(write),
            complaint: Some(complaint),
            reliable: false,
        }
    }
}

/// Brings what is remembered up to the Secret, or tells how the Secret has to be repaired.
///
/// A Secret that lost its content is written again from memory rather than with a new CA, since
/// API servers trust the old one. A generation that went back, or stands still while the content
/// changes, was not written by any replica (an old backup, a hand edit).
fn settle(
    memory: &mut Memory,
    secret: Option<&Secret>,
    parameters: &Parameters,
    now: Timestamp,
) -> Settled {
    let held = memory.state.as_ref();
    let Some(secret) = secret else {
        return match held {
            Some(held) => Settled::repair(
                Action::CreateSecret(Content::State(held.clone().after(0))),
                "the Secret is gone; its CA is written again".to_owned(),
            ),
            None => Settled {
                write: Some(Action::CreateSecret(Content::New { generation: 1 })),
                complaint: None,
                reliable: false,
            },
        };
    };
    let generation = generation_of(secret).unwrap_or_default();
    match (State::parse(secret), held) {
        (Ok(found), Some(held)) if outranks(held, &found) => Settled::repair(
            Action::ReplaceSecret(Content::State(held.clone().after(generation))),
            format!(
                "the Secret was set from generation {} to another state of generation {generation}; \
                 it is written back",
                held.generation
            ),
        ),
        (Ok(found), _) => {
            let write = is_near_its_end(found.active.ca(), parameters, now)
                .then(|| Action::ReplaceSecret(Content::Renewed(found.clone().after(0))));
            memory.state = Some(found);
            Settled {
                write,
                complaint: None,
                reliable: true,
            }
        }
        (Err(error), held) => {
            let state = held.cloned().or_else(|| State::salvage(secret, now));
            let content = match state {
                Some(state) => Content::State(state.after(generation)),
                None => Content::New {
                    generation: generation.saturating_add(1),
                },
            };
            let kept = match content {
                Content::New { .. } => "a new CA is made",
                _ => "it is written again with the same CA",
            };
            Settled::repair(
                Action::ReplaceSecret(content),
                format!("the Secret cannot be used: {}; {kept}", with_causes(&error)),
            )
        }
    }
}

fn outranks(held: &State, found: &State) -> bool {
    held.generation > found.generation || (held.generation == found.generation && held != found)
}

/// Tells whether leaves of a CA would be cut short by its end.
fn is_near_its_end(ca: &TrustedCa, parameters: &Parameters, now: Timestamp) -> bool {
    let margin = parameters
        .leaf_lifetime
        .min(parameters.authority_lifetime / 3);
    ca.not_after().duration_since(now) < margin
}

/// Decides whether the bundles of a configuration have to be written, all of them in one request:
/// an entry that is left out of a server-side apply loses what this manager had applied to it.
fn publish(
    configuration: &Configuration,
    known: &Bundle,
    keeps: impl Fn(&TrustedCa) -> bool,
) -> Option<Action> {
    let wanted: Vec<_> = configuration
        .entries
        .iter()
        .map(|entry| {
            let kept = entry.bundle.beyond(known).filter(|ca| keeps(ca)).cloned();
            (entry.name.clone(), known.clone().with(kept))
        })
        .collect();
    let differs = configuration
        .entries
        .iter()
        .zip(&wanted)
        .any(|(entry, (_, bundle))| !entry.bundle.is_same_set(bundle));
    differs.then(|| Action::PatchBundle {
        name: configuration.name.clone(),
        uid: configuration.uid.clone(),
        entries: wanted,
    })
}

/// The instant that a leaf of `authority` may not outlive: a CA that does not sign is dropped then.
fn limit(state: &State, authority: &Authority, parameters: &Parameters) -> Option<Timestamp> {
    (*authority != state.active).then(|| {
        state
            .phase_since
            .saturating_add(parameters.retire_delay)
            .unwrap_or(Timestamp::MAX)
    })
}
