//! When each step of a rotation may be taken.
//!
//! steady: one CA signs and is trusted. At two thirds of its life the next one is made and
//! published (prepared), and signs only when every API server must have learnt of it (activated).
//! The old one stays trusted until no leaf of it can be alive, and is dropped (steady).
//!
//! A CA that must not be trusted leaves sooner: the next one is dropped, the active one gives way to
//! a next one or to the one that retires, and the one that retires does not wait for its leaves.

use jiff::{SignedDuration, Timestamp};

use super::memory::{Memory, Version};
use super::observation::Observation;
use crate::authority::{Authority, Lifetime};
use crate::bundle::{Bundle, TrustedCa};
use crate::options::{ForeignCa, Parameters};
use crate::probe::ProbeCause;
use crate::requests::Requests;
use crate::secret::{Phase, State};

/// The rules, each a function of what was seen and of the clock.
///
/// They are a trait only so that a test can take one at a time for a wrong one, and show that the
/// exploration of all states notices.
pub(super) trait Rules {
    /// A next CA is made in good time, or when somebody asks for it.
    fn may_prepare(
        state: &State,
        requests: &Requests,
        _parameters: &Parameters,
        now: Timestamp,
    ) -> bool {
        let active = state.active.ca();
        now >= rotates_at(active) || requests.rotate || requests.revokes(active)
    }

    /// A CA that was made a moment ago is published beside the one that signs.
    fn prepare(state: State, next: Authority, now: Timestamp) -> State {
        state.prepared(next, now)
    }

    /// The CAs that every managed entry has to trust.
    fn trusted(state: &State) -> Bundle {
        state.bundle()
    }

    /// Tells whether the webhook configurations are what they were.
    ///
    /// Comparing bundles is not enough: one that was reverted and repaired between two looks is the
    /// same again, and an API server may yet be about to see the revert.
    fn is_unchanged(before: &[Version], after: &[Version]) -> bool {
        before == after
    }

    /// The next CA signs once every managed entry has trusted it for the propagation delay: there
    /// is no acknowledgement by an API server, only the time that its watches may take.
    fn may_activate(memory: &Memory, parameters: &Parameters, now: Timestamp) -> bool {
        memory.published_for(now).is_some_and(|delay| delay >= parameters.propagation_delay)
    }

    /// Tells whether the trust probe lets the next CA sign; the propagation delay alone makes that
    /// safe, so that only what tells of trust and calls holds it back for as long as it lasts.
    ///
    /// A probe that may not be made, or that no entry reviews, tells nothing of them, and what
    /// fails at something unknown need not have to do with them.
    fn is_probed(
        probe: Option<Result<(), ProbeCause>>,
        memory: &Memory,
        parameters: &Parameters,
        now: Timestamp,
    ) -> bool {
        match probe {
            None | Some(Ok(()) | Err(ProbeCause::NotConfigured | ProbeCause::Forbidden)) => true,
            Some(Err(ProbeCause::Other)) => {
                memory.published_for(now).is_some_and(|delay| delay >= parameters.probe_patience())
            }
            Some(Err(ProbeCause::Untrusted | ProbeCause::Timeout | ProbeCause::NoEndpoints)) => {
                false
            }
        }
    }

    /// A next CA that must not be trusted is dropped at once, and never signs: no leaf of it is
    /// served.
    fn may_drop(next: &Authority, requests: &Requests) -> bool {
        requests.revokes(next.ca())
    }

    /// The CA that retires signs again where the active one must not be trusted: it is what every
    /// API server trusts already, so that the active one is dropped a propagation delay later
    /// rather than after two further ones.
    ///
    /// That takes nothing away. A CA near its end does not come back, nor one that is revoked too.
    fn may_return(
        state: &State,
        retiring: &Authority,
        requests: &Requests,
        seen: &Observation,
        parameters: &Parameters,
        now: Timestamp,
    ) -> bool {
        requests.revokes(state.active.ca())
            && Self::given_up_for(state, retiring, requests, parameters, now).is_none()
            && seen.is_complete
            && seen.trusts(retiring.ca(), now)
    }

    /// The revoked CA because of which the one that retires is given up before its time: itself, or
    /// the active one where it cannot take that one's place.
    fn given_up_for<'a>(
        state: &'a State,
        retiring: &'a Authority,
        requests: &Requests,
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

    /// The old CA is dropped when no leaf of it can be alive, and sooner only when somebody says
    /// that it must not be trusted: then after the time in which every replica has read that, and
    /// by it serves a leaf of the new one.
    fn may_retire(
        state: &State,
        retiring: &Authority,
        requests: &Requests,
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

    /// Tells whether the old CA has to stay for another retire delay, because entries were lately
    /// seen to trust it alone: whoever reverts them time and again would stop admission for good
    /// once no leaf of it is served.
    ///
    /// That is decided while such leaves are still served.
    fn stays(
        state: &State,
        retiring: &Authority,
        requests: &Requests,
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

    /// Chooses the CA whose leaf is served: the active one, except where only the other one is sure
    /// to be trusted.
    ///
    /// That is so where the entries trust the other one alone, and after an activation until the
    /// active one has been in all of them for the propagation delay: somebody may have reverted
    /// them at the moment of the activation, and an API server may yet know the revert alone. It
    /// never prefers the newest, which may not yet have reached every API server. Where not
    /// everything could be read, the leaf that is served stays.
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
            // A moment later the other one is trusted no longer.
            Phase::Activated { retiring } if is_given_up(retiring) => is_trusted(),
            // It is about to retire in the other one's place.
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
        // The look that leaves it comes before it expires.
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

    /// Tells whether the leaf that is served stays though the Secret does not know its CA: while the
    /// entries trust that, and have not trusted the active one for the propagation delay.
    ///
    /// So it is when the Secret was exchanged for one of a later generation, or a whole rotation
    /// went by unseen.
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
        }) && seen.entries().next().is_some()
            && !Self::may_activate(memory, parameters, now)
    }

    /// The instant that a leaf of `authority` may not outlive: a CA that does not sign is dropped
    /// a moment later.
    fn limit(state: &State, authority: &Authority, parameters: &Parameters) -> Option<Timestamp> {
        let delay = parameters.retire_delay - parameters.freshness();
        (*authority != state.active)
            .then(|| state.phase_since.saturating_add(delay).unwrap_or(Timestamp::MAX))
    }

    /// Tells whether a CA that the Secret does not know stays in a bundle. Only a live read of the
    /// Secret makes a removal possible, unless the CA has expired.
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

    /// Tells whether a decision on what was read at `read` may still be carried out: a process may
    /// have been stopped in between, and neither mints nor writes by what it knew before.
    fn is_fresh(read: Timestamp, parameters: &Parameters, now: Timestamp) -> bool {
        let age = now.duration_since(read);
        !age.is_negative() && age <= parameters.freshness()
    }
}

/// The rules as they are kept.
pub(super) struct Kept;

impl Rules for Kept {}

/// The state with a next CA that is published and signs nothing yet.
pub fn prepare(state: State, next: Authority, now: Timestamp) -> State {
    Kept::prepare(state, next, now)
}

/// Tells whether a decision on what was read at `read` may still be carried out at `now`.
pub fn is_fresh(read: Timestamp, parameters: &Parameters, now: Timestamp) -> bool {
    Kept::is_fresh(read, parameters, now)
}

/// The revoked CA because of which the one that retires is given up before its time.
pub(super) fn given_up_for<'a>(
    state: &'a State,
    retiring: &'a Authority,
    requests: &Requests,
    parameters: &Parameters,
    now: Timestamp,
) -> Option<&'a TrustedCa> {
    Kept::given_up_for(state, retiring, requests, parameters, now)
}

/// When the next CA is due: at two thirds of the life of this one.
pub fn rotates_at(ca: &TrustedCa) -> Timestamp {
    let lifetime = Lifetime { not_before: ca.not_before(), not_after: ca.not_after() };
    let span = ca.not_after().duration_since(lifetime.issued());
    lifetime.issued().saturating_add(span / 3 * 2).unwrap_or(Timestamp::MAX)
}

/// The validity of a leaf that is minted at `now` and may not outlive `until`.
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

/// Tells whether leaves of a CA would be cut short by its end.
///
/// That is well after its successor is due at a third of its life, however long leaves live: a CA
/// that is renewed instead would never be replaced.
pub(super) fn is_near_its_end(ca: &TrustedCa, parameters: &Parameters, now: Timestamp) -> bool {
    let margin: SignedDuration = parameters.leaf_lifetime.min(parameters.authority_lifetime / 6);
    ca.not_after().duration_since(now) < margin
}
