//! Model of one rotation: all reachable states, with the rules as transitions.
//!
//! Two replicas reconcile in any order; each may crash, or pause, between reading the Secret,
//! reading the webhook configuration, and each of its actions. Two API servers learn of a changed
//! configuration late, but within an hour, which is the propagation delay. At any moment the
//! configuration may be reverted to its first bundle, and a CA may be revoked.
//!
//! Invariants of each state: every API server trusts the leaf that a replica serves, and no CA
//! begins to sign after its revocation. Excepted are cases that cannot be met: an API server whose
//! bundle was written without the CA that signed at that time, or was not repaired for an hour;
//! and, during a revocation, a replica that serves without reconciling for an hour. From each
//! state, a state in which both replicas are trusted is reachable without a crash. From each new
//! revocation, it completes within a few hours if all make progress.

mod cluster_state;
mod exploration;
mod moves;
mod transitions;

use jiff::Timestamp;
use webhook_certs::authority::Authority;
use webhook_certs::bundle::{Bundle, TrustedCa};
use webhook_certs::options::Parameters;
use webhook_certs::rotation::model::{ProductionRules, Rules, Version};
use webhook_certs::rotation::{Memory, Observation};
use webhook_certs::secret::rotation_requests::RotationRequests;
use webhook_certs::secret::{Phase, State};

use exploration::Exploration;
use moves::{Begin, Bounds};
use transitions::Transitions;

#[test]
fn rotation_keeps_every_leaf_trusted_and_completes() {
    Exploration::<ProductionRules>::explore(Bounds { crashes: true, servers: 2, ..QUIET }).holds();
}

#[test]
fn reverts_at_any_moment_are_recovered_from() {
    for bounds in [
        Bounds { hours: 2, crashes: true, servers: 2, ..REVERTED },
        Bounds { hours: 3, ..REVERTED },
    ] {
        Exploration::<ProductionRules>::explore(bounds).holds();
    }
}

#[test]
fn revocation_in_each_phase_fails_no_call_and_completes() {
    let prepared = Bounds { begin: Begin::Prepared, hours: 1, ..REVOKED };
    for (bounds, within) in [
        (Bounds { begin: Begin::Steady, hours: 1, ..REVOKED }, 3),
        (Bounds { crashes: true, servers: 2, ..prepared }, 3),
        (REVOKED, 3),
        (Bounds { hours: 1, revocations: 2, ..REVOKED }, 5),
    ] {
        let mut found = Exploration::<ProductionRules>::explore(bounds);
        found.holds();
        found.revokes_within(within);
    }
}

/// Mutates one rule; the exploration must find a state with an untrusted leaf.
macro_rules! mistakes {
    ($($test:ident: $bounds:expr, { $($rule:item)* })*) => {
        $(#[test]
        fn $test() {
            struct MutatedRules;
            impl Rules for MutatedRules {
                $($rule)*
            }
            let found = Exploration::<MutatedRules>::explore($bounds);
            let path = found.path_to_violation().expect("the mistake is not found");
            println!("{} states, then: {path}", found.states.len());
        })*
    };
}

const QUIET: Bounds = Bounds {
    begin: Begin::Steady,
    hours: 4,
    reverts: 0,
    revocations: 0,
    crashes: false,
    servers: 1,
};
const REVOKED: Bounds = Bounds { begin: Begin::Activated, hours: 2, revocations: 1, ..QUIET };
const REVERTED: Bounds = Bounds { reverts: 1, ..QUIET };

mistakes! {
    exchanging_the_ca_in_one_step_is_found: QUIET, {
        fn prepare(state: State, next: Authority, now: Timestamp) -> State {
            State { active: next, phase_since: now, ..state }
        }
    }
    publishing_without_the_ca_that_retires_is_found: QUIET, {
        fn trusted(state: &State) -> Bundle {
            match &state.phase {
                Phase::Activated { .. } => Bundle::new(state.active.ca().clone(), None),
                _ => state.bundle(),
            }
        }
        fn keeps(_: &Memory, _: &TrustedCa, _: bool, _: &Parameters, _: Timestamp) -> bool {
            false
        }
    }
    activating_before_anything_is_published_is_found: QUIET, {
        fn may_activate(_: &Memory, _: &Parameters, _: Timestamp) -> bool {
            true
        }
    }
    activating_without_the_propagation_delay_is_found: QUIET, {
        fn may_activate(memory: &Memory, _: &Parameters, now: Timestamp) -> bool {
            memory.published_for(now).is_some()
        }
    }
    overlooking_a_revert_that_was_repaired_is_found: REVERTED, {
        fn is_unchanged(_: &[Version], _: &[Version]) -> bool {
            true
        }
    }
    serving_the_newest_trusted_ca_is_found: QUIET, {
        fn choose<'a>(
            state: &'a State,
            _: &Memory,
            seen: &Observation,
            _: &Parameters,
            now: Timestamp,
        ) -> &'a Authority {
            match &state.phase {
                Phase::Prepared { next } if seen.trusts(next.ca(), now) => next,
                _ => &state.active,
            }
        }
    }
    retiring_while_old_leaves_live_is_found: QUIET, {
        fn may_retire(
            state: &State,
            _: &Authority,
            _: &RotationRequests,
            _: &Memory,
            parameters: &Parameters,
            now: Timestamp,
        ) -> bool {
            now.duration_since(state.phase_since) >= parameters.leaf_lifetime
        }
    }
    a_leaf_that_outlives_its_retired_ca_is_found: REVERTED, {
        fn limit(_: &State, _: &Authority, _: &Parameters) -> Option<Timestamp> {
            None
        }
    }
    letting_a_revoked_next_ca_sign_is_found: Bounds { begin: Begin::Prepared, ..REVOKED }, {
        fn may_drop(_: &Authority, _: &RotationRequests) -> bool {
            false
        }
    }
    letting_a_revoked_ca_sign_again_is_found: Bounds { revocations: 2, ..REVOKED }, {
        fn may_return(
            state: &State,
            _: &Authority,
            requests: &RotationRequests,
            _: &Observation,
            _: &Parameters,
            _: Timestamp,
        ) -> bool {
            requests.revokes(state.active.ca())
        }
    }
    dropping_a_revoked_ca_at_once_is_found: REVOKED, {
        fn may_retire(
            _: &State,
            retiring: &Authority,
            requests: &RotationRequests,
            _: &Memory,
            _: &Parameters,
            _: Timestamp,
        ) -> bool {
            requests.revokes(retiring.ca())
        }
    }
    dropping_a_revoked_ca_by_the_age_of_its_successor_is_found: REVOKED, {
        fn may_retire(
            state: &State,
            retiring: &Authority,
            requests: &RotationRequests,
            _: &Memory,
            parameters: &Parameters,
            now: Timestamp,
        ) -> bool {
            let age = now.duration_since(state.phase_since);
            requests.revokes(retiring.ca()) && age >= parameters.propagation_delay
        }
    }
    dropping_a_revoked_ca_while_leaves_of_it_are_minted_is_found: REVOKED, {
        fn choose<'a>(
            state: &'a State,
            memory: &Memory,
            seen: &Observation,
            parameters: &Parameters,
            now: Timestamp,
        ) -> &'a Authority {
            let unasked = Observation { secret: None, ..seen.clone() };
            ProductionRules::choose(state, memory, &unasked, parameters, now)
        }
    }
}

/// This mutation has too many states to explore, so one path is given.
#[test]
fn paused_replica_discards_its_outdated_decisions() {
    struct MutatedRules;
    impl Rules for MutatedRules {
        fn is_fresh(_: Timestamp, _: &Parameters, _: Timestamp) -> bool {
            true
        }
    }
    assert!(is_safe_after_a_standstill::<ProductionRules>());
    assert!(!is_safe_after_a_standstill::<MutatedRules>());
}

/// One replica reads and decides, and acts after the other one has rotated the CA.
fn is_safe_after_a_standstill<R: Rules>() -> bool {
    let mut transitions = Transitions::new();
    let mut cluster = transitions.first(QUIET);
    cluster = transitions.work::<R>(cluster, 0);
    cluster = transitions.work::<R>(cluster, 0);
    for hour in 0..=QUIET.hours {
        cluster.hour = hour;
        for _ in 0..30 {
            cluster = transitions.work::<R>(cluster, 1);
            cluster.known = [cluster.hook; 2];
        }
        assert!(transitions.is_safe(cluster));
    }
    assert_eq!(transitions.secrets.get(cluster.secret).0.generation, 4);
    (0..4).all(|_| {
        cluster = transitions.work::<R>(cluster, 0);
        transitions.is_safe(cluster)
    })
}
