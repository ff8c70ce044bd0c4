//! Comparison of the Secret with the memory.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use super::memory::Memory;
use super::rules::is_near_its_end;
use super::{Action, Content};
use crate::options::Parameters;
use crate::secret::{State, generation_of, is_immutable};

/// Result of comparing the Secret with the memory.
pub(super) struct SecretCheck {
    /// Write that the Secret needs, if any.
    pub(super) write: Option<Action>,
    /// Problem of the Secret, if it has one.
    pub(super) problem: Option<String>,
    /// True if a CA may be dropped on its grounds.
    pub(super) is_reliable: bool,
}

impl SecretCheck {
    fn repair(write: Action, problem: String) -> Self {
        Self { write: Some(write), problem: Some(problem), is_reliable: false }
    }
}

/// Adopts the Secret's state, or decides on its repair.
///
/// A Secret that lost its content is restored from memory instead of getting a new CA, since API
/// servers trust the old one. No replica writes a lower generation, or other content with the same
/// generation; a backup or a manual edit does.
pub(super) fn check_secret(
    memory: &mut Memory,
    secret: Option<&Secret>,
    parameters: &Parameters,
    now: Timestamp,
) -> SecretCheck {
    let held = memory.state.as_ref();
    let Some(secret) = secret else {
        return match held {
            Some(held) => SecretCheck::repair(
                Action::CreateSecret(Content::State(held.clone().after(0))),
                "the Secret is missing; it is created again with the same CA".to_owned(),
            ),
            None => SecretCheck {
                write: Some(Action::CreateSecret(Content::New { generation: 1 })),
                problem: None,
                is_reliable: false,
            },
        };
    };
    let generation = generation_of(secret).unwrap_or_default();
    match (State::parse(secret), held) {
        (Ok(found), Some(held)) if outranks(held, &found) => SecretCheck::repair(
            Action::ReplaceSecret(Content::State(held.clone().after(generation))),
            format!(
                "the Secret was changed from generation {} to another state of generation \
                 {generation}; it is restored",
                held.generation
            ),
        ),
        (Ok(found), _) => {
            let write = is_near_its_end(found.active.ca(), parameters, now)
                .then(|| Action::ReplaceSecret(Content::Renewed(found.clone().after(0))));
            memory.adopt(found);
            SecretCheck { write, problem: None, is_reliable: true }
        }
        (Err(error), held) => {
            let state = held.cloned().or_else(|| State::salvage(secret, now));
            if is_immutable(secret) {
                // It is served, and written once a user has deleted the Secret.
                memory.state.clone_from(&state);
            }
            let content = match state {
                Some(state) => Content::State(state.after(generation)),
                None => Content::New { generation: generation.saturating_add(1) },
            };
            let kept = match content {
                Content::New { .. } => "a new CA is made",
                _ => "it is restored with the same CA",
            };
            SecretCheck::repair(
                Action::ReplaceSecret(content),
                format!("the Secret cannot be used: {error}; {kept}"),
            )
        }
    }
}

fn outranks(held: &State, found: &State) -> bool {
    held.generation > found.generation || (held.generation == found.generation && held != found)
}
