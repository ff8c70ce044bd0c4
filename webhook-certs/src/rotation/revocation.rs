//! Revocations that are still to be carried out, for people and programs to read.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde::Serialize;

use super::rules::given_up_for;
use crate::bundle::TrustedCa;
use crate::options::Parameters;
use crate::requests::Requests;
use crate::secret::{Phase, State};

/// A CA that somebody asks not to trust any longer, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Revocation {
    /// The subject of the CA.
    pub authority: String,
    /// What the CA is: `active`, `next` or `retiring`.
    pub role: &'static str,
    /// What happens next; the same for all replicas.
    pub next_step: String,
    /// The earliest instant of that; absent where it happens at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
}

impl Revocation {
    /// What the annotations of `secret`, which holds `state`, ask for and is not done yet.
    pub fn pending(
        secret: &Secret,
        state: &State,
        parameters: &Parameters,
        now: Timestamp,
    ) -> Vec<Self> {
        let requests = Requests::read(secret);
        // Replicas that have read of it later wait for as much longer.
        let since =
            state.phase_since.max(Requests::revoked_at(secret).unwrap_or(state.phase_since));
        let roles = state.roles().into_iter().filter(|(_, ca)| requests.revokes(ca));
        roles
            .map(|(role, ca)| {
                let (next_step, waits) = next_step(state, ca, &requests, parameters, now);
                let not_before = since.saturating_add(parameters.propagation_delay).ok();
                Self {
                    authority: ca.name().to_owned(),
                    role,
                    next_step,
                    not_before: not_before.filter(|_| waits),
                }
            })
            .collect()
    }
}

impl std::fmt::Display for Revocation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { authority, role, next_step, not_before } = self;
        write!(formatter, "{authority} ({role}) is revoked: {next_step}")?;
        not_before.map_or(Ok(()), |at| write!(formatter, ", not before {at}"))
    }
}

/// What happens next, and whether it waits for the propagation delay.
fn next_step(
    state: &State,
    ca: &TrustedCa,
    requests: &Requests,
    parameters: &Parameters,
    now: Timestamp,
) -> (String, bool) {
    let delay = parameters.propagation_delay;
    let signs = ca == state.active.ca();
    match &state.phase {
        Phase::Steady => ("a next CA is made at once, to sign in its place".to_owned(), false),
        Phase::Prepared { .. } if !signs => {
            ("it is dropped at once and never signs; another one is made".to_owned(), false)
        }
        Phase::Prepared { next } if requests.revokes(next.ca()) => {
            (format!("{} is dropped first, and another next CA made", next.ca().name()), false)
        }
        Phase::Prepared { next } => (
            format!(
                "{} signs in its place when every entry has trusted that for {delay:#}, unchanged",
                next.ca().name()
            ),
            true,
        ),
        Phase::Activated { .. } if !signs => {
            (format!("it is dropped when all replicas have known of it for {delay:#}"), true)
        }
        Phase::Activated { retiring } => {
            let name = retiring.ca().name();
            match given_up_for(state, retiring, requests, parameters, now) {
                None => (format!("{name} signs again, and this one retires"), false),
                Some(_) => (format!("{name} is dropped first, and then a next CA made"), true),
            }
        }
    }
}
