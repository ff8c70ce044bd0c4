//! Decisions about revoked CAs.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;

use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::options::Parameters;
use webhook_certs::rotation::{Action, Content, Memory};
use webhook_certs::secret::rotation_requests::{REVOKE, ROTATE, ROTATE_NOW, RotationRequests};
use webhook_certs::secret::{Phase, State};

use crate::fixtures::{at, authority};
use crate::replica::{patched, reconcile, remembering, secret, serve, serving};

fn revoking(state: &State, numbers: &str) -> Secret {
    let mut secret = secret(state);
    let annotations = secret.metadata.annotations.get_or_insert_default();
    annotations.insert(REVOKE.to_owned(), numbers.to_owned());
    secret
}

fn prepared() -> State {
    State::new(authority(1, 0), 1, at(0)).after(0).prepared(authority(2, 0), at(0))
}

fn activated() -> State {
    State::new(authority(1, 0), 2, at(0)).activated(authority(2, 0), at(0))
}

fn written(actions: &[Action]) -> Option<&State> {
    match actions.first() {
        Some(Action::ReplaceSecret(Content::State(state))) => Some(state),
        _ => None,
    }
}

/// Requests that remain when `after` is written.
fn left(found: &Secret, before: &State, after: &State) -> [Option<String>; 2] {
    let mut secret = after.write(found.clone());
    RotationRequests::fulfil(&mut secret, before, after);
    let mut annotations = secret.metadata.annotations.unwrap();
    [annotations.remove(REVOKE), annotations.remove(ROTATE)]
}

#[test]
fn revoked_next_ca_is_dropped_and_rotation_requested_anew() {
    let state = prepared();
    let next = state.phase.other().unwrap().clone();
    for (numbers, left_over) in [("2", None), ("1,2", Some("1".to_owned()))] {
        let found = revoking(&state, numbers);
        let mut memory = serving(remembering(&state), &state.active, 0);
        // Published for long enough to sign.
        reconcile(&mut memory, secret(&state), &state.bundle(), 0);
        let actions = reconcile(&mut memory, found.clone(), &state.bundle(), 1);
        let after = state.clone().revoking(next.ca()).retired(at(1));
        assert_eq!(written(&actions), Some(&after));
        assert_eq!(after.active, state.active);
        assert_eq!(left(&found, &state, &after), [left_over, Some("now".to_owned())]);
        // It leaves the bundles at once, also by a replica that never saw it.
        let actions = reconcile(&mut Memory::default(), secret(&after), &state.bundle(), 1);
        assert_eq!(actions, [patched(&after.bundle()), serve(&after.active)]);
    }
    // No leaf of it is served, even if the entries trust only it.
    let only = Bundle::new(next.ca().clone(), None);
    let actions = reconcile(&mut Memory::default(), revoking(&state, "2"), &only, 1);
    assert_eq!(actions.last(), Some(&serve(&state.active)));
}

#[test]
fn retiring_ca_signs_again_in_place_of_a_revoked_one() {
    let state = activated();
    let retiring = state.phase.other().unwrap().clone();
    let found = revoking(&state, "2");
    let mut memory = serving(remembering(&state), &state.active, 0);
    let actions = reconcile(&mut memory, found.clone(), &state.bundle(), 1);
    let after = state.clone().activated(retiring.clone(), at(1));
    assert_eq!(written(&actions), Some(&after));
    assert!(
        matches!(actions.last(), Some(Action::Serve { authority, .. }) if *authority == retiring),
        "{actions:?}"
    );
    let asked = [Some("2".to_owned()), Some("now".to_owned())];
    assert_eq!(left(&found, &state, &after), asked);
    // The revoked CA is dropped after its revocation has been known for the propagation delay.
    let found = revoking(&after, "2");
    let mut memory = serving(remembering(&after), &retiring, 1);
    assert_eq!(reconcile(&mut memory, found.clone(), &state.bundle(), 1), []);
    let actions = reconcile(&mut memory, found.clone(), &state.bundle(), 2);
    let steady = after.clone().revoking(state.active.ca()).retired(at(2));
    assert_eq!(written(&actions), Some(&steady));
    assert_eq!(left(&found, &after, &steady), [None, None]);
}

#[test]
fn revoked_or_expiring_ca_does_not_sign_again() {
    let both = activated();
    let short = Lifetime::starting(at(0), SignedDuration::from_hours(24));
    let short = Authority::create("test", 1, short, Entropy::draw().unwrap()).unwrap();
    let ends = State { phase: Phase::Activated { retiring: short }, ..both.clone() };
    for (state, numbers, revoked) in [(both, "1,2", true), (ends, "2", false)] {
        let found = revoking(&state, numbers);
        let mut memory = serving(remembering(&state), &state.active, 0);
        assert_eq!(reconcile(&mut memory, found.clone(), &state.bundle(), 1), []);
        let retiring = state.phase.other().unwrap().ca();
        let dropping = if revoked { state.clone().revoking(retiring) } else { state.clone() };
        let actions = reconcile(&mut memory, found.clone(), &state.bundle(), 2);
        let after = dropping.retired(at(2));
        assert_eq!(written(&actions), Some(&after));
        assert_eq!(left(&found, &state, &after), [Some("2".to_owned()), None]);
    }
}

#[test]
fn revocation_applies_only_to_cas_of_this_installation() {
    let state = State::new(authority(2, 0), 3, at(0)).revoking(authority(1, 0).ca());
    let lifetime = Lifetime::starting(at(0), Parameters::default().authority_lifetime);
    let other = Authority::create("other", 1, lifetime, Entropy::draw().unwrap()).unwrap();
    for (ca, stays) in [(other.ca(), true), (authority(1, 0).ca(), false)] {
        let both = state.bundle().with([ca.clone()]);
        let mut memory = serving(remembering(&state), &state.active, 0);
        let actions = reconcile(&mut memory, secret(&state), &both, 1);
        assert_eq!(actions.is_empty(), stays, "{ca:?}: {actions:?}");
        // An unusable Secret removes no CA.
        let actions = reconcile(&mut memory, Secret::default(), &both, 1);
        assert!(!actions.iter().any(|action| action.patch().is_some()), "{actions:?}");
    }
}

#[test]
fn requests_outlive_the_secret_until_they_are_removed() {
    let state = activated();
    let mut memory = serving(remembering(&state), &state.active, 0);
    let mut asking = revoking(&state, "1");
    let annotations = asking.metadata.annotations.get_or_insert_default();
    annotations.insert(ROTATE.to_owned(), ROTATE_NOW.to_owned());
    reconcile(&mut memory, asking.clone(), &state.bundle(), 1);
    for damaged in [None, Some(Secret::default())] {
        reconcile(&mut memory, damaged, &state.bundle(), 1);
        let mut restored = secret(&state);
        memory.requests().restore(&mut restored);
        assert_eq!(
            RotationRequests::from_secret(&restored),
            RotationRequests::from_secret(&asking)
        );
    }
    reconcile(&mut memory, secret(&state), &state.bundle(), 1);
    assert_eq!(memory.requests(), RotationRequests::default());
}

#[test]
fn finished_revocations_may_be_requested_again() {
    let state = State::new(authority(2, 0), 3, at(0)).revoking(authority(1, 0).ca());
    assert_eq!(RotationRequests::from_secret(&revoking(&state, "1")).problem_with(&state), None);
    let problem =
        RotationRequests::from_secret(&revoking(&state, "1,9")).problem_with(&state).unwrap();
    assert!(problem.contains("no CA with the number 9; hint: it holds CN=test-ca 2 (active); "));
}
