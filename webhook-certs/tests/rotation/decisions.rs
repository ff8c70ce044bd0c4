//! Single decisions of a replica.

use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::options::Parameters;
use webhook_certs::rotation::model::{ProductionRules, Rules};
use webhook_certs::rotation::{
    Action, Configuration, Content, Decision, Memory, Observation, ProbeCause, PublishedRoots,
    decide,
};
use webhook_certs::secret::{Phase, State};
use webhook_certs::server_names::ServerNames;

use crate::fixtures::{at, authority, configuration, names};
use crate::replica::{patched, reconcile, remembering, secret, serve, serving};

fn seen(configurations: Vec<Configuration>) -> Observation {
    Observation { configurations, is_complete: true, ..Observation::default() }
}

#[test]
fn first_replica_creates_only_the_secret() {
    let mut memory = Memory::default();
    assert_eq!(
        reconcile(&mut memory, None, &Bundle::default(), 0),
        [Action::CreateSecret(Content::New { generation: 1 })]
    );
}

#[test]
fn existing_secret_is_adopted_published_and_served() {
    let state = State::new(authority(1, 0), 1, at(0));
    let mut memory = Memory::default();
    assert_eq!(
        reconcile(&mut memory, secret(&state), &Bundle::default(), 0),
        [patched(&state.bundle()), serve(&state.active)]
    );
    let mut memory = serving(memory, &state.active, 0);
    assert_eq!(reconcile(&mut memory, secret(&state), &state.bundle(), 1), []);
}

#[test]
fn deleted_secret_is_restored_and_the_leaf_stays() {
    let state = State::new(authority(1, 0), 4, at(0));
    let mut memory = serving(remembering(&state), &state.active, 0);
    assert_eq!(
        reconcile(&mut memory, None, &state.bundle(), 1),
        [Action::CreateSecret(Content::State(state.clone().after(4)))]
    );
}

#[test]
fn emptied_secret_is_restored() {
    let state = State::new(authority(1, 0), 4, at(0));
    let mut memory = serving(remembering(&state), &state.active, 0);
    assert_eq!(
        reconcile(&mut memory, Some(Secret::default()), &state.bundle(), 1),
        [Action::ReplaceSecret(Content::State(state.after(4)))]
    );
}

#[test]
fn without_memory_the_signing_ca_is_salvaged_or_replaced() {
    let state = State::new(authority(1, 0), 4, at(0));
    let mut damaged = secret(&state);
    damaged.data.as_mut().unwrap().remove("ca.crt");
    let salvaged = State::new(state.active.clone(), 5, at(1));
    assert_eq!(
        reconcile(&mut Memory::default(), Some(damaged.clone()), &state.bundle(), 1),
        [Action::ReplaceSecret(Content::State(salvaged))]
    );
    let key = ByteString(b"no key".to_vec());
    damaged.data.as_mut().unwrap().insert("active.key".to_owned(), key);
    assert_eq!(
        reconcile(&mut Memory::default(), Some(damaged), &state.bundle(), 1),
        [Action::ReplaceSecret(Content::New { generation: 5 })]
    );
}

#[test]
fn older_or_exchanged_secret_is_restored_newer_one_adopted() {
    let held = State::new(authority(1, 0), 4, at(0));
    for (generation, restored) in [(3, true), (4, true), (5, false)] {
        let found = State::new(authority(2, 0), generation, at(0));
        let mut memory = serving(remembering(&held), &held.active, 0);
        let actions = reconcile(&mut memory, secret(&found), &held.bundle(), 1);
        if restored {
            let content = Content::State(held.clone().after(generation));
            assert_eq!(actions, [Action::ReplaceSecret(content)]);
        } else {
            let both = found.bundle().with([held.active.ca().clone()]);
            assert_eq!(actions, [patched(&both)]);
        }
    }
}

#[test]
fn expiring_ca_is_renewed_under_its_key() {
    let state = State::new(authority(1, 0), 4, at(0));
    let year = 365 * 24;
    for (hour, renewed) in [(0, false), (year - 169, false), (year - 167, true), (2 * year, true)] {
        let actions = reconcile(&mut Memory::default(), secret(&state), &state.bundle(), hour);
        let renewal = Action::ReplaceSecret(Content::Renewed(state.clone().after(4)));
        assert_eq!(actions.contains(&renewal), renewed, "hour {hour}");
    }
}

#[test]
fn ca_is_replaced_in_time_for_any_leaf_lifetime() {
    let lifetime = SignedDuration::from_hours(24);
    for leaf_lifetime in [1, 6, 8, 12, 24].map(SignedDuration::from_hours) {
        let parameters =
            Parameters { authority_lifetime: lifetime, leaf_lifetime, ..Parameters::default() };
        let lifetime = Lifetime::starting(at(0), lifetime);
        let active = Authority::create("test", 1, lifetime, Entropy::draw().unwrap()).unwrap();
        let state = State::new(active, 1, at(0));
        let observation = Observation {
            secret: Some(state.write(Secret::default())),
            configurations: vec![configuration(&state.bundle())],
            is_complete: true,
            ..Observation::default()
        };
        let mut memory = remembering(&state);
        let actions = decide(&mut memory, &observation, &names(), &parameters, at(17)).actions;
        assert!(
            matches!(&actions[0], Action::ReplaceSecret(Content::Prepared(_))),
            "{leaf_lifetime:#}: {actions:?}"
        );
    }
}

#[test]
fn leaf_is_renewed_near_half_life_and_for_new_names() {
    let state = State::new(authority(1, 0), 1, at(0));
    let mut memory = serving(remembering(&state), &state.active, 0);
    for (hour, renewed) in [(74, false), (94, true)] {
        let actions = reconcile(&mut memory, secret(&state), &state.bundle(), hour);
        assert_eq!(actions.contains(&serve(&state.active)), renewed, "hour {hour}");
    }
    let observation = Observation {
        secret: Some(secret(&state)),
        configurations: vec![configuration(&state.bundle())],
        is_complete: true,
        ..Observation::default()
    };
    let renamed = ServerNames::parse(["other.test.svc"]).unwrap();
    let decision = decide(&mut memory, &observation, &renamed, &Parameters::default(), at(1));
    assert_eq!(decision.actions, [serve(&state.active)]);
}

#[test]
fn foreign_ca_stays_for_the_delay_unless_it_expires() {
    let state = State::new(authority(1, 0), 1, at(0));
    let foreign = authority(9, 0);
    let whole = state.bundle().with([foreign.ca().clone()]);
    let mut memory = serving(remembering(&state), &state.active, 80);
    assert_eq!(reconcile(&mut memory, secret(&state), &whole, 80), []);
    assert_eq!(reconcile(&mut memory, secret(&state), &whole, 80 + 168), [serve(&state.active)]);
    let mut memory = serving(memory, &state.active, 80 + 169);
    assert_eq!(
        reconcile(&mut memory, secret(&state), &whole, 80 + 169),
        [patched(&state.bundle())]
    );
    // An unusable Secret removes no CA.
    assert_eq!(
        reconcile(&mut memory, None, &whole, 80 + 170),
        [Action::CreateSecret(Content::State(state.clone().after(1)))]
    );
    let expired = authority(8, -24 * 366);
    let whole = state.bundle().with([expired.ca().clone()]);
    assert!(
        reconcile(&mut memory, secret(&state), &whole, 80 + 171)
            .contains(&patched(&state.bundle()))
    );
}

#[test]
fn active_ca_is_preferred_once_it_is_surely_trusted() {
    let (active, other) = (authority(2, 0), authority(1, 0));
    let parameters = Parameters::default();
    let state = State {
        phase: Phase::Activated { retiring: other.clone() },
        ..State::new(active.clone(), 3, at(0))
    };
    let only = |authority: &Authority| Bundle::new(authority.ca().clone(), None);
    for (bundle, hour, chosen) in [
        (state.bundle(), 1, &other),
        (state.bundle(), 169, &active),
        (only(&active), 1, &active),
        (only(&other), 1, &other),
        (only(&other), 169, &active),
        (Bundle::default(), 1, &active),
    ] {
        let seen = seen(vec![configuration(&bundle)]);
        let memory = Memory::default();
        assert_eq!(ProductionRules::choose(&state, &memory, &seen, &parameters, at(hour)), chosen);
    }
    let until = Some(at(169) - parameters.freshness());
    let fallback = Action::Serve { authority: other, until };
    let mut memory = Memory::default();
    let actions = reconcile(&mut memory, secret(&state), &only(state.phase.other().unwrap()), 1);
    assert_eq!(actions.last(), Some(&fallback));
    // Repaired, and then unchanged for the propagation delay.
    assert_eq!(reconcile(&mut memory, secret(&state), &state.bundle(), 2), [fallback]);
    assert_eq!(reconcile(&mut memory, secret(&state), &state.bundle(), 3), [serve(&active)]);
}

#[test]
fn wrong_clock_makes_no_ca_and_the_rest_goes_on() {
    let state = State::new(authority(1, 0), 4, at(0));
    let looked = |secret: Option<Secret>, memory: Memory, hour, minutes| {
        let observation = Observation {
            secret,
            configurations: vec![configuration(&Bundle::default())],
            is_complete: true,
            clock_ahead: SignedDuration::from_mins(minutes),
            ..Observation::default()
        };
        let mut memory = memory;
        decide(&mut memory, &observation, &names(), &Parameters::default(), at(hour))
    };
    let makes_ca = |action: &Action| match action {
        Action::CreateSecret(content) | Action::ReplaceSecret(content) => {
            !matches!(content, Content::State(_))
        }
        Action::PatchBundle(_) | Action::Serve { .. } => false,
    };
    let makes_a_ca = |decision: &Decision| decision.actions.iter().any(makes_ca);
    let due = 365 * 16 + 1;
    let year = 365 * 24;
    for (secret, hour) in [
        (None, 0),
        (Some(Secret::default()), 0),
        (Some(secret(&state)), due),
        (Some(secret(&state)), year - 1),
    ] {
        for (minutes, made) in [(0, true), (-30, true), (30, true), (120, false), (-120, false)] {
            let decision = looked(secret.clone(), Memory::default(), hour, minutes);
            assert_eq!(makes_a_ca(&decision), made, "{minutes} minutes in hour {hour}");
            let problem = decision.problem.unwrap_or_default();
            assert_eq!(problem.contains("this replica makes no CA"), !made, "{problem}");
        }
    }
    // A remembered CA is still restored, published and served.
    let restored = looked(None, remembering(&state), 1, -120);
    assert_eq!(
        restored.actions,
        [
            Action::CreateSecret(Content::State(state.clone().after(0))),
            patched(&state.bundle()),
            serve(&state.active)
        ]
    );
}

#[test]
fn next_ca_signs_only_once_workloads_trust_it() {
    let state = State::new(authority(1, 0), 4, at(0)).prepared(authority(5, 0), at(0));
    let (old, both) = (Bundle::new(state.active.ca().clone(), None), state.bundle());
    let mut memory = serving(remembering(&state), &state.active, 0);
    for (hour, roots, changes, activates) in [
        (0, &old, 0, false),
        (12, &old, 0, false),
        (13, &both, 1, false),
        // The roots were reverted and published again.
        (14, &both, 3, false),
        (15, &both, 3, true),
    ] {
        let observation = Observation {
            secret: Some(secret(&state)),
            roots: PublishedRoots { bundles: vec![roots.clone()], changes },
            ..seen(vec![configuration(&both)])
        };
        let parameters = Parameters {
            propagation_delay: SignedDuration::from_hours(1),
            ..Parameters::default()
        };
        let actions = decide(&mut memory, &observation, &names(), &parameters, at(hour)).actions;
        let writes = actions.iter().any(|action| matches!(action, Action::ReplaceSecret(_)));
        assert_eq!(writes, activates, "hour {hour}: {actions:?}");
    }
}

#[test]
fn failed_trust_probe_holds_the_next_ca_back() {
    let state = State::new(authority(1, 0), 4, at(0)).prepared(authority(5, 0), at(0));
    let activates = |probe: Option<Result<(), ProbeCause>>, hours| {
        let mut memory = serving(remembering(&state), &state.active, 0);
        let mut actions = Vec::new();
        for hour in [0, hours] {
            let observation = Observation {
                secret: Some(secret(&state)),
                configurations: vec![configuration(&state.bundle())],
                is_complete: true,
                probe,
                ..Observation::default()
            };
            let parameters = Parameters {
                propagation_delay: SignedDuration::from_hours(1),
                ..Parameters::default()
            };
            actions = decide(&mut memory, &observation, &names(), &parameters, at(hour)).actions;
        }
        actions.iter().any(|action| matches!(action, Action::ReplaceSecret(_)))
    };
    for (probe, at_once, later) in [
        (None, true, true),
        (Some(Ok(())), true, true),
        // These causes say nothing about trust.
        (Some(Err(ProbeCause::Forbidden)), true, true),
        (Some(Err(ProbeCause::NotConfigured)), true, true),
        (Some(Err(ProbeCause::Untrusted)), false, false),
        (Some(Err(ProbeCause::Timeout)), false, false),
        (Some(Err(ProbeCause::NoEndpoints)), false, false),
        // An unknown cause holds the CA back for a limited time.
        (Some(Err(ProbeCause::Other)), false, true),
    ] {
        assert_eq!(activates(probe, 1), at_once, "{probe:?}");
        assert_eq!(activates(probe, 12), later, "{probe:?}");
    }
}
