//! Pending revocations, for people and programs.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde::Serialize;

use super::rules::{ProductionRules, Rules};
use crate::bundle::TrustedCa;
use crate::options::Parameters;
use crate::secret::rotation_requests::RotationRequests;
use crate::secret::{Phase, State};

/// A revoked CA, and its next step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Revocation {
    /// Subject of the CA.
    pub authority: String,
    /// Role of the CA: `active`, `next` or `retiring`.
    pub role: &'static str,
    /// Next step, the same for all replicas.
    pub next_step: String,
    /// Earliest instant of that step; absent if it is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
}

impl Revocation {
    /// Returns the revocations that `secret`, which holds `state`, requests and that are not
    /// finished.
    pub fn pending(
        secret: &Secret,
        state: &State,
        parameters: &Parameters,
        now: Timestamp,
    ) -> Vec<Self> {
        let requests = RotationRequests::from_secret(secret);
        // Replicas that saw the request later wait accordingly longer.
        let since = state
            .phase_since
            .max(RotationRequests::revoked_at(secret).unwrap_or(state.phase_since));
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

/// Next step, and true if it waits for the propagation delay.
fn next_step(
    state: &State,
    ca: &TrustedCa,
    requests: &RotationRequests,
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
            match ProductionRules::given_up_for(state, retiring, requests, parameters, now) {
                None => (format!("{name} signs again, and this one retires"), false),
                Some(_) => (format!("{name} is dropped first, and then a next CA made"), true),
            }
        }
    }
}
