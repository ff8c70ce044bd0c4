//! Conditions for each step of a rotation.
//!
//! steady: one CA signs and is trusted. At two thirds of its lifetime the next one is made and
//! published (prepared), and signs only when every API server must have learnt of it (activated).
//! The old one stays trusted until no leaf of it can be valid, and is dropped (steady).
//!
//! A revoked CA leaves sooner: a next one is dropped, an active one is replaced by the next or the
//! retiring one, and a retiring one does not wait for its leaves.

use jiff::{SignedDuration, Timestamp};

use super::memory::{Memory, Version};
use super::observation::{Observation, ProbeCause};
use crate::authority::{Authority, Lifetime};
use crate::bundle::{Bundle, TrustedCa};
use crate::options::{ForeignCa, Parameters};
use crate::secret::rotation_requests::RotationRequests;
use crate::secret::{Phase, State};

/// Rules of the rotation, each a function of an observation, the memory and the time.
///
/// They are a trait so that a test can mutate one at a time, and show that the exploration of all
/// states notices.
pub trait Rules {
    /// True if a next CA is due or requested.
    fn may_prepare(
        state: &State,
        requests: &RotationRequests,
        _parameters: &Parameters,
        now: Timestamp,
    ) -> bool {
        let active = state.active.ca();
        now >= rotates_at(active) || requests.rotate || requests.revokes(active)
    }

    /// Adds a new CA, which is published beside the signing one.
    fn prepare(state: State, next: Authority, now: Timestamp) -> State {
        state.prepared(next, now)
    }

    /// CAs that every managed entry must trust.
    fn trusted(state: &State) -> Bundle {
        state.bundle()
    }

    /// True if the webhook configurations are unchanged.
    ///
    /// Comparing bundles is not enough: a bundle that was reverted and repaired between two
    /// observations looks the same, and an API server may yet see the revert.
    fn is_unchanged(before: &[Version], after: &[Version]) -> bool {
        before == after
    }

    /// True if every managed entry has trusted the next CA for the propagation delay. API servers
    /// send no acknowledgement, so only the time that their watches may take counts.
    fn may_activate(memory: &Memory, parameters: &Parameters, now: Timestamp) -> bool {
        memory.published_for(now).is_some_and(|delay| delay >= parameters.propagation_delay)
    }

    /// True if the trust probe lets the next CA sign. The propagation delay alone makes that safe,
    /// so only failures of trust and calls hold the CA back without limit.
    ///
    /// A probe that is forbidden, or that no entry reviews, says nothing about them, and an unknown
    /// cause may have nothing to do with them.
    fn is_probed(
        probe: Option<Result<(), ProbeCause>>,
        memory: &Memory,
        parameters: &Parameters,
        now: Timestamp,
    ) -> bool {
        match probe {
            None | Some(Ok(()) | Err(ProbeCause::NotConfigured | ProbeCause::Forbidden)) => true,
            Some(Err(ProbeCause::Other)) => {
                memory.published_for(now).is_some_and(|delay| delay >= parameters.probe_timeout())
            }
            Some(Err(ProbeCause::Untrusted | ProbeCause::Timeout | ProbeCause::NoEndpoints)) => {
                false
            }
        }
    }

    /// True if the next CA is revoked. It is dropped at once and never signs, since no leaf of it
    /// is served.
    fn may_drop(next: &Authority, requests: &RotationRequests) -> bool {
        requests.revokes(next.ca())
    }

    /// True if the retiring CA signs again because the active one is revoked. Every API server
    /// trusts it already, so the active one is dropped one propagation delay later instead of
    /// three.
    ///
    /// No trust is withdrawn by that. A CA near its end, or revoked too, does not sign again.
    fn may_return(
        state: &State,
        retiring: &Authority,
        requests: &RotationRequests,
        seen: &Observation,
        parameters: &Parameters,
        now: Timestamp,
    ) -> bool {
        requests.revokes(state.active.ca())
            && Self::given_up_for(state, retiring, requests, parameters, now).is_none()
            && seen.is_complete
            && seen.trusts(retiring.ca(), now)
    }

    /// The revoked CA that forces early retirement: the retiring one, or the active one if the
    /// retiring one cannot replace it.
    fn given_up_for<'a>(
        state: &'a State,
        retiring: &'a Authority,
        requests: &RotationRequests,
        parameters: &Parameters,
        now: Timestamp,
    ) -> Option<&'a TrustedCa> {
        let (active, retiring) = (state.active.ca(), retiring.ca());
        if requests.revokes(retiring) {
            Some(retiring)
        } else {
            Some(active)
                .filter(|active| requests.revokes(active))
                .filter(|_| is_near_its_end(retiring, parameters, now))
        }
    }

    /// True if the old CA can be dropped: when no leaf of it can be valid. After a revocation
    /// already when every replica has seen the request, and so serves a leaf of the new CA.
    fn may_retire(
        state: &State,
        retiring: &Authority,
        requests: &RotationRequests,
        memory: &Memory,
        parameters: &Parameters,
        now: Timestamp,
    ) -> bool {
        let age = now.duration_since(state.phase_since);
        let delay = parameters.propagation_delay;
        let then = now.saturating_sub(delay).unwrap_or(now);
        let is_given_up = Self::given_up_for(state, retiring, requests, parameters, then)
            .and_then(|revoked| memory.revoked_for(revoked, now))
            .is_some_and(|known_for| age.min(known_for) >= delay);
        age >= parameters.retire_delay || is_given_up || retiring.ca().not_after() < now
    }

    /// True if the old CA must stay for another retire delay, because entries were recently seen to
    /// trust only it. Repeated reverts would otherwise stop admission once no leaf of it is served.
    ///
    /// The decision falls while such leaves are still served.
    fn stays(
        state: &State,
        retiring: &Authority,
        requests: &RotationRequests,
        memory: &Memory,
        parameters: &Parameters,
        now: Timestamp,
    ) -> bool {
        let age = now.duration_since(state.phase_since);
        let delay = parameters.retire_delay;
        memory.was_reverted(parameters.propagation_delay, now)
            && age >= (delay - parameters.freshness() * 3).max(delay / 2)
            && Self::given_up_for(state, retiring, requests, parameters, now).is_none()
            && now <= retiring.ca().not_after()
    }

    /// Chooses the CA whose leaf is served: the active one, unless only the other one is certain to
    /// be trusted.
    ///
    /// That is the case if the entries trust only the other one, and after an activation until the
    /// active one has been in all of them for the propagation delay: the entries may have been
    /// reverted at the moment of the activation, and an API server may know only the revert. The
    /// newest CA is never preferred, since it may not have reached every API server. If not
    /// everything could be read, the served leaf stays.
    fn choose<'a>(
        state: &'a State,
        memory: &Memory,
        seen: &Observation,
        parameters: &Parameters,
        now: Timestamp,
    ) -> &'a Authority {
        let serves = |authority: &Authority| {
            memory.leaf.as_ref().is_some_and(|leaf| leaf.issuer().is_same_signer(authority.ca()))
        };
        let requests = seen.requests();
        let is_trusted = || seen.trusts(state.active.ca(), now);
        let is_given_up =
            |retiring| Self::given_up_for(state, retiring, &requests, parameters, now).is_some();
        let active_is_sure = || match &state.phase {
            // The retiring one is dropped a moment later.
            Phase::Activated { retiring } if is_given_up(retiring) => is_trusted(),
            // The active one is about to retire.
            Phase::Activated { retiring }
                if Self::may_return(state, retiring, &requests, seen, parameters, now) =>
            {
                false
            }
            Phase::Activated { .. } => Self::may_activate(memory, parameters, now),
            _ => is_trusted(),
        };
        let is_dropped = |other: &Authority| {
            matches!(state.phase, Phase::Prepared { .. }) && Self::may_drop(other, &requests)
        };
        // The reconciliation that gives it up comes before it expires.
        let outlasts = |end: Timestamp| end.duration_since(now) > parameters.freshness();
        let other = state.phase.other().filter(|other| {
            !is_dropped(other)
                && Self::limit(state, other, parameters).is_none_or(outlasts)
                && outlasts(other.ca().not_after())
                && if seen.is_complete {
                    !active_is_sure() && seen.trusts(other.ca(), now)
                } else {
                    serves(other)
                }
        });
        other.unwrap_or(&state.active)
    }

    /// True if the served leaf stays although its CA is not in the Secret: while the entries trust
    /// it, and have not trusted the active one for the propagation delay.
    ///
    /// That happens when the Secret was replaced by one of a later generation, or when this replica
    /// missed a whole rotation.
    fn keeps_leaf(
        state: &State,
        memory: &Memory,
        seen: &Observation,
        parameters: &Parameters,
        now: Timestamp,
    ) -> bool {
        let leaf = memory.leaf.as_ref().filter(|leaf| !state.knows(leaf.issuer()));
        let outlasts = |end: Timestamp| end.duration_since(now) > parameters.freshness();
        leaf.is_some_and(|leaf| {
            outlasts(leaf.lifetime().not_after)
                && seen.trusts(leaf.issuer(), now)
                && !state.has_revoked(leaf.issuer())
        }) && seen.bundles().next().is_some()
            && !Self::may_activate(memory, parameters, now)
    }

    /// Latest end of validity for a leaf of `authority`: a CA that does not sign is dropped a
    /// moment later.
    fn limit(state: &State, authority: &Authority, parameters: &Parameters) -> Option<Timestamp> {
        let delay = parameters.retire_delay - parameters.freshness();
        (*authority != state.active)
            .then(|| state.phase_since.saturating_add(delay).unwrap_or(Timestamp::MAX))
    }

    /// True if a foreign CA stays in a bundle. Unless the CA has expired, only a live read of the
    /// Secret permits its removal.
    fn keeps(
        memory: &Memory,
        foreign: &TrustedCa,
        is_reliable: bool,
        parameters: &Parameters,
        now: Timestamp,
    ) -> bool {
        let is_unwanted = || match parameters.foreign_ca {
            _ if memory.is_retired(foreign) || memory.has_revoked(foreign) => true,
            ForeignCa::Keep => false,
            ForeignCa::Grace => memory.is_stale(foreign, parameters.retire_delay, now),
            ForeignCa::Drop => true,
        };
        foreign.not_after() >= now && !(is_reliable && is_unwanted())
    }

    /// True if a decision on an observation at `read` may still be carried out. A process that was
    /// paused in between must neither mint nor write by it.
    fn is_fresh(read: Timestamp, parameters: &Parameters, now: Timestamp) -> bool {
        let age = now.duration_since(read);
        !age.is_negative() && age <= parameters.freshness()
    }
}

/// The rules in production.
pub struct ProductionRules;

impl Rules for ProductionRules {}

/// Instant at which the next CA is due: two thirds of the lifetime of this one.
pub fn rotates_at(ca: &TrustedCa) -> Timestamp {
    let lifetime = Lifetime { not_before: ca.not_before(), not_after: ca.not_after() };
    let span = ca.not_after().duration_since(lifetime.issued());
    lifetime.issued().saturating_add(span / 3 * 2).unwrap_or(Timestamp::MAX)
}

/// Validity of a leaf minted at `now` that must end by `until`.
pub fn leaf_lifetime(
    until: Option<Timestamp>,
    parameters: &Parameters,
    now: Timestamp,
) -> Lifetime {
    let mut lifetime = Lifetime::starting(now, parameters.leaf_lifetime);
    if let Some(until) = until {
        lifetime.not_after = lifetime.not_after.min(until);
    }
    lifetime
}

/// True if the end of the CA cuts the lifetime of its leaves short.
///
/// The margin is at most a sixth of the CA's lifetime, well after its successor is due: a CA that
/// is renewed instead would never be replaced.
pub(super) fn is_near_its_end(ca: &TrustedCa, parameters: &Parameters, now: Timestamp) -> bool {
    let margin: SignedDuration = parameters.leaf_lifetime.min(parameters.authority_lifetime / 6);
    ca.not_after().duration_since(now) < margin
}
