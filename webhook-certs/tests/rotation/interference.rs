//! Decisions after other writers changed bundles, the Secret or the rotation.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;

use webhook_certs::authority::{Entropy, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::options::Parameters;
use webhook_certs::rotation::model::{ProductionRules, Rules};
use webhook_certs::rotation::{
    Action, BundlePatch, Content, Decision, Memory, Observation, decide,
};
use webhook_certs::secret::rotation_requests::REVOKE;
use webhook_certs::secret::{Phase, State};

use crate::fixtures::{at, authority, configuration, names};
use crate::replica::{patched, reconcile, remembering, secret, serve, serving};

/// State with a retiring CA, and a replica that serves a leaf of it.
fn activated() -> (State, Memory) {
    let state = State {
        phase: Phase::Activated { retiring: authority(1, 0) },
        ..State::new(authority(2, 0), 3, at(0))
    };
    let memory = serving(remembering(&state), state.phase.other().unwrap(), 100);
    (state, memory)
}

#[test]
fn reverted_entries_prolong_the_retiring_ca() {
    let (state, memory) = activated();
    let old = Bundle::new(state.phase.other().unwrap().ca().clone(), None);
    let parameters = Parameters::default();
    let retire = Action::ReplaceSecret(Content::State(state.clone().retired(at(169))));
    let actions = reconcile(&mut memory.clone(), secret(&state), &state.bundle(), 169);
    assert!(actions.contains(&retire), "{actions:?}");
    // Also for a replica that did not run while the CA could still be prolonged.
    for hour in [168, 169] {
        let actions = reconcile(&mut memory.clone(), secret(&state), &old, hour);
        let first = actions.first();
        let prolonged = Content::State(state.clone().prolonged(at(hour)));
        let expected = (hour == 169).then_some(Action::ReplaceSecret(prolonged));
        assert_eq!(
            first.filter(|action| matches!(action, Action::ReplaceSecret(_))).cloned(),
            expected
        );
    }
    let prolonged = state.clone().prolonged(at(169));
    let until = Some(at(169 + 169) - parameters.freshness());
    let retiring = state.phase.other().unwrap().clone();
    let actions = reconcile(&mut Memory::default(), secret(&prolonged), &old, 170);
    assert!(actions.contains(&Action::Serve { authority: retiring, until }), "{actions:?}");
    // A revocation is not delayed.
    let mut revoked = secret(&state);
    let annotations = revoked.metadata.annotations.get_or_insert_default();
    annotations.insert(REVOKE.to_owned(), "1".to_owned());
    let actions = reconcile(&mut memory.clone(), revoked, &old, 169);
    let revoked = state.phase.other().unwrap().ca();
    let retire = Content::State(state.clone().revoking(revoked).retired(at(169)));
    assert!(actions.contains(&Action::ReplaceSecret(retire)), "{actions:?}");
}

#[test]
fn revoked_ca_is_dropped_once_no_leaf_of_it_is_served() {
    let (state, mut memory) = activated();
    let mut revoked = secret(&state);
    let annotations = revoked.metadata.annotations.get_or_insert_default();
    annotations.insert(REVOKE.to_owned(), "1".to_owned());
    // This replica does not know yet whether the entries were reverted recently.
    assert!(
        !reconcile(&mut memory.clone(), secret(&state), &state.bundle(), 100)
            .contains(&serve(&state.active))
    );
    // It stops serving the revoked CA at once, and drops it once every other replica has had the
    // time to.
    let is_write = |action: &Action| matches!(action, Action::ReplaceSecret(_));
    let actions = reconcile(&mut memory, revoked.clone(), &state.bundle(), 100);
    assert!(actions.contains(&serve(&state.active)), "{actions:?}");
    assert!(!actions.iter().any(is_write), "{actions:?}");
    let actions = reconcile(&mut memory, revoked, &state.bundle(), 101);
    let revoked = state.phase.other().unwrap().ca();
    let retired = Content::State(state.clone().revoking(revoked).retired(at(101)));
    assert_eq!(actions.first(), Some(&Action::ReplaceSecret(retired)));
}

#[test]
fn immutable_secret_is_served_but_not_written() {
    let state = State::new(authority(1, 0), 4, at(0));
    let observe = |memory: &mut Memory, secret: Secret, hour| {
        let observation = Observation {
            secret: Some(Secret { immutable: Some(true), ..secret }),
            configurations: vec![configuration(&state.bundle())],
            is_complete: true,
            ..Observation::default()
        };
        decide(memory, &observation, &names(), &Parameters::default(), at(hour))
    };
    let is_write = |action: &Action| matches!(action, Action::ReplaceSecret(_));
    // Rotation due, CA near its end, content lost.
    let mut damaged = secret(&state);
    damaged.data.as_mut().unwrap().remove("ca.crt");
    let year = 365 * 24;
    for (secret, hour) in
        [(secret(&state), year * 2 / 3 + 1), (secret(&state), year - 1), (damaged.clone(), 1)]
    {
        let mut memory = Memory::default();
        let Decision { actions, problem, .. } = observe(&mut memory, secret, hour);
        assert!(!actions.iter().any(is_write), "{actions:?}");
        assert!(problem.unwrap().contains("`kubectl --namespace "), "no hint");
        assert!(
            matches!(actions.last(), Some(Action::Serve { authority, .. }) if *authority == state.active)
        );
        // After a user has deleted it, it is created with the same CA.
        let created = reconcile(&mut memory, None, &state.bundle(), hour);
        let Some(Action::CreateSecret(Content::State(created))) = created.first() else {
            panic!("{created:?}");
        };
        assert_eq!(created.active, state.active);
    }
}

#[test]
fn trusted_leaf_stays_until_an_exchanged_ca_is_trusted() {
    let held = State::new(authority(1, 0), 4, at(0));
    let found = State::new(authority(2, 0), 9, at(0));
    let both = found.bundle().with([held.active.ca().clone()]);
    let mut memory = serving(remembering(&held), &held.active, 0);
    assert_eq!(reconcile(&mut memory, secret(&found), &held.bundle(), 1), [patched(&both)]);
    assert_eq!(reconcile(&mut memory, secret(&found), &both, 2), []);
    assert_eq!(reconcile(&mut memory, secret(&found), &both, 3), [serve(&found.active)]);
    // A leaf that is not trusted any more is given up.
    let mut memory = serving(remembering(&held), &held.active, 0);
    assert_eq!(reconcile(&mut memory, secret(&found), &found.bundle(), 1), [serve(&found.active)]);
}

#[test]
fn certificate_from_before_a_renewal_is_not_foreign() {
    let state = State::new(authority(1, 0), 4, at(0));
    let lifetime = Lifetime::starting(at(10), Parameters::default().authority_lifetime);
    let active = state.active.renewed(lifetime, Entropy::draw().unwrap()).unwrap();
    let renewed = State { active, generation: 5, ..state.clone() };
    let both = renewed.bundle().with([state.active.ca().clone()]);
    let mut memory = serving(remembering(&renewed), &renewed.active, 10);
    assert_eq!(reconcile(&mut memory, secret(&renewed), &both, 10), []);
    assert_eq!(memory.foreign(), 0);
}

#[test]
fn revocation_of_an_unknown_ca_is_reported() {
    let state = State::new(authority(1, 0), 4, at(0));
    let mut secret = secret(&state);
    let annotations = secret.metadata.annotations.get_or_insert_default();
    annotations.insert(REVOKE.to_owned(), "7".to_owned());
    let observation = Observation { secret: Some(secret), ..Observation::default() };
    let mut memory = remembering(&state);
    let decision = decide(&mut memory, &observation, &names(), &Parameters::default(), at(1));
    let problem = decision.problem.unwrap_or_default();
    assert!(problem.contains("holds no CA with the number 7; hint: "), "{problem}");
}

#[test]
fn foreign_cas_do_not_displace_the_ca_of_the_served_leaf() {
    let held = State::new(authority(1, 0), 4, at(0));
    let found = State::new(authority(2, 0), 9, at(0));
    let foreign = (11..18).map(|number| authority(number, 1000).ca().clone());
    let full = held.bundle().followed_by(foreign);
    assert_eq!(full.certificates().len(), Bundle::CAPACITY);
    for mut memory in [Memory::default(), serving(remembering(&held), &held.active, 0)] {
        let actions = reconcile(&mut memory, secret(&found), &full, 1);
        let Some(Action::PatchBundle(BundlePatch { entries, .. })) = actions.first() else {
            panic!("{actions:?}");
        };
        for authority in [&found.active, &held.active] {
            assert!(entries[0].1.trusts(authority.ca(), at(1)), "{entries:?}");
        }
    }
}

#[test]
fn leaf_of_a_retiring_ca_is_replaced_before_it_expires() {
    let (state, _) = activated();
    let parameters = Parameters::default();
    let limit = ProductionRules::limit(&state, state.phase.other().unwrap(), &parameters).unwrap();
    let seen = Observation {
        configurations: vec![configuration(&state.bundle())],
        is_complete: true,
        ..Observation::default()
    };
    for (left, is_left) in [(2, true), (1, false)] {
        let now = limit - parameters.freshness() * left + SignedDuration::from_secs(1);
        let chosen = ProductionRules::choose(&state, &Memory::default(), &seen, &parameters, now);
        assert_eq!(*chosen != state.active, is_left, "{left}");
    }
    // A CA that ends earlier ends its leaves too.
    let end = state.phase.other().unwrap().ca().not_after();
    let late = State { phase_since: end - SignedDuration::from_hours(1), ..state.clone() };
    for (minutes, is_left) in [(30, true), (4, false)] {
        let now = end - SignedDuration::from_mins(minutes);
        let chosen = ProductionRules::choose(&late, &Memory::default(), &seen, &parameters, now);
        assert_eq!(*chosen != late.active, is_left, "{minutes}");
    }
}

/// A store restored from a backup counts generations anew, so a bundle that was reverted and
/// published again can have its earlier generation.
#[test]
fn restored_store_does_not_shorten_the_propagation_delay() {
    let state = State::new(authority(1, 0), 1, at(0)).after(0).prepared(authority(2, 0), at(0));
    let parameters = Parameters::default();
    let mut memory = serving(remembering(&state), &state.active, 0);
    let mut activates = |published_at: i64, hour: i64| {
        let mut configuration = configuration(&state.bundle());
        configuration.published_at = Some(at(published_at));
        let observation = Observation {
            secret: Some(secret(&state)),
            configurations: vec![configuration],
            is_complete: true,
            ..Observation::default()
        };
        let actions = decide(&mut memory, &observation, &names(), &parameters, at(hour)).actions;
        actions.iter().any(|action| matches!(action, Action::ReplaceSecret(_)))
    };
    assert!(!activates(0, 0));
    assert!(!activates(1, 1), "its bundle was published a moment ago");
    assert!(activates(1, 2));
}
