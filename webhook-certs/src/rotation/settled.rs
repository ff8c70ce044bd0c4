//! How the Secret compares with what is remembered.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use super::memory::Memory;
use super::rules::is_near_its_end;
use super::{Action, Content};
use crate::options::Parameters;
use crate::secret::{State, generation_of, is_immutable};

/// How the Secret compares with what is remembered.
pub(super) struct Settled {
    /// How the Secret has to be written, if it has to.
    pub(super) write: Option<Action>,
    /// What was wrong with it.
    pub(super) complaint: Option<String>,
    /// Whether it may be relied upon when a CA is to be dropped.
    pub(super) is_reliable: bool,
}

impl Settled {
    fn repair(write: Action, complaint: String) -> Self {
        Self { write: Some(write), complaint: Some(complaint), is_reliable: false }
    }
}

/// Brings what is remembered up to the Secret, or tells how the Secret has to be repaired.
///
/// A Secret that lost its content is written again from memory rather than with a new CA, since
/// API servers trust the old one. A generation that went back, or stands still while the content
/// changes, was not written by any replica (an old backup, a hand edit).
pub(super) fn settle(
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
                is_reliable: false,
            },
        };
    };
    let generation = generation_of(secret).unwrap_or_default();
    match (State::parse(secret), held) {
        (Ok(found), Some(held)) if outranks(held, &found) => Settled::repair(
            Action::ReplaceSecret(Content::State(held.clone().after(generation))),
            format!(
                "the Secret was set from generation {} to another state of generation \
                 {generation}; it is written back",
                held.generation
            ),
        ),
        (Ok(found), _) => {
            let write = is_near_its_end(found.active.ca(), parameters, now)
                .then(|| Action::ReplaceSecret(Content::Renewed(found.clone().after(0))));
            memory.adopt(found);
            Settled { write, complaint: None, is_reliable: true }
        }
        (Err(error), held) => {
            let state = held.cloned().or_else(|| State::salvage(secret, now));
            if is_immutable(secret) {
                // It is served until somebody deletes the Secret, and written then.
                memory.state.clone_from(&state);
            }
            let content = match state {
                Some(state) => Content::State(state.after(generation)),
                None => Content::New { generation: generation.saturating_add(1) },
            };
            let kept = match content {
                Content::New { .. } => "a new CA is made",
                _ => "it is written again with the same CA",
            };
            Settled::repair(
                Action::ReplaceSecret(content),
                format!("the Secret cannot be used: {error}; {kept}"),
            )
        }
    }
}

fn outranks(held: &State, found: &State) -> bool {
    held.generation > found.generation || (held.generation == found.generation && held != found)
}
