//! Tests of the Secret's format.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;

use super::*;
use crate::authority::{Entropy, Lifetime};

fn authority(generation: u64) -> Authority {
    let lifetime = Lifetime::starting(now(), SignedDuration::from_hours(24));
    Authority::create("test", generation, lifetime, Entropy::draw().unwrap()).unwrap()
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn states() -> Vec<State> {
    let steady = State::new(authority(1), 7, now());
    let prepared = State { phase: Phase::Prepared { next: authority(2) }, ..steady.clone() };
    let activated = State { phase: Phase::Activated { retiring: authority(3) }, ..steady.clone() };
    vec![steady, prepared, activated]
}

fn keys(secret: &Secret) -> Vec<&str> {
    let data = secret.data.as_ref().unwrap();
    data.keys().map(String::as_str).collect()
}

#[test]
fn every_phase_round_trips() {
    let expected = [
        &["active.crt", "active.key", "ca.crt"][..],
        &["active.crt", "active.key", "ca.crt", "next.crt", "next.key"],
        &["active.crt", "active.key", "ca.crt", "retiring.crt", "retiring.key"],
    ];
    let mut secret = Secret::default();
    for (state, expected) in states().into_iter().zip(expected) {
        // Each is written over the one before, so the keys of the other phase must go.
        secret = state.write(secret);
        assert_eq!(keys(&secret), expected);
        assert_eq!(State::parse(&secret).unwrap(), state);
    }
}

#[test]
fn annotations_hold_phase_and_generation() {
    let secret = states()[1].write(Secret::default());
    let annotations: Vec<_> = secret.metadata.annotations.unwrap().into_iter().collect();
    let expected = [
        ("cert-manager.io/allow-direct-injection", "true"),
        ("outrigger.io/generation", "7"),
        ("outrigger.io/phase", "prepared"),
        ("outrigger.io/phase-since", "2026-01-02T03:04:05Z"),
    ];
    assert_eq!(annotations, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn revoked_numbers_round_trip_and_must_be_valid() {
    let state = states().remove(0).revoking(authority(5).ca()).revoking(authority(3).ca());
    let mut secret = state.write(Secret::default());
    let annotations = secret.metadata.annotations.as_mut().unwrap();
    assert_eq!(annotations["outrigger.io/revoked"], "3,5");
    assert_eq!(State::parse(&secret).unwrap(), state);
    assert!(state.has_revoked(authority(3).ca()) && !state.has_revoked(authority(4).ca()));
    let annotations = secret.metadata.annotations.as_mut().unwrap();
    annotations.insert("outrigger.io/revoked".to_owned(), "3;5".to_owned());
    assert_eq!(
        State::parse(&secret).unwrap_err().to_string(),
        "annotation `outrigger.io/revoked`: `3;5`: `3;5` is not the number of a CA"
    );
}

#[test]
fn content_of_other_writers_stays() {
    let mut secret = Secret {
        metadata: ObjectMeta {
            annotations: Some([("theirs".to_owned(), "kept".to_owned())].into()),
            resource_version: Some("12".to_owned()),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    };
    secret.data = Some([("theirs".to_owned(), ByteString(b"kept".to_vec()))].into());
    let written = states()[0].write(secret);
    assert_eq!(written.metadata.annotations.unwrap()["theirs"], "kept");
    assert_eq!(written.data.unwrap()["theirs"].0, b"kept");
    assert_eq!(written.metadata.resource_version.unwrap(), "12");
}

#[test]
fn errors_name_key_or_annotation() {
    let state = &states()[2];
    let damaged = |damage: &dyn Fn(&mut Secret)| {
        let mut secret = state.write(Secret::default());
        damage(&mut secret);
        State::parse(&secret).unwrap_err().to_string()
    };
    let set = |key: &'static str, value: &'static [u8]| {
        damaged(&move |secret| {
            let value = ByteString(value.to_vec());
            secret.data.as_mut().unwrap().insert(key.to_owned(), value);
        })
    };
    let annotate = |annotation: &'static str, value: &'static str| {
        damaged(&move |secret| {
            let annotations = secret.metadata.annotations.as_mut().unwrap();
            annotations.insert(annotation.to_owned(), value.to_owned());
        })
    };
    assert_eq!(set("active.key", b""), "key `active.key` is missing");
    assert!(
        set("retiring.crt", b"no PEM")
            .starts_with("keys `retiring.crt` and `retiring.key` hold no CA: ")
    );
    assert_eq!(
        set("ca.crt", b"no PEM"),
        "key `ca.crt` holds no bundle of CAs: no certificate in it"
    );
    assert_eq!(
        annotate("outrigger.io/generation", "-1"),
        "annotation `outrigger.io/generation`: `-1`: it is not a whole number"
    );
    assert_eq!(
        annotate("outrigger.io/phase", "rotating"),
        "annotation `outrigger.io/phase`: `rotating`: expected steady, prepared or activated"
    );
    assert!(
        annotate("outrigger.io/phase-since", "today")
            .starts_with("annotation `outrigger.io/phase-since`: `today`: ")
    );
    let other = authority(9).certificate_pem();
    assert_eq!(
        damaged(&|secret| {
            let data = secret.data.as_mut().unwrap();
            data.insert("ca.crt".to_owned(), ByteString(other.clone().into_bytes()));
        }),
        "key `ca.crt` lacks a CA that the other keys hold"
    );
    let key = authority(9).key_pem().as_bytes().to_vec();
    assert_eq!(
        damaged(&|secret| {
            let data = secret.data.as_mut().unwrap();
            data.insert("active.key".to_owned(), ByteString(key.clone()));
        }),
        "keys `active.crt` and `active.key` hold no CA: \
         the CA key does not belong to the certificate `CN=test-ca 1`"
    );
}

#[test]
fn signing_ca_is_salvaged_without_annotations() {
    let state = &states()[0];
    let mut secret = state.write(Secret::default());
    secret.metadata.annotations = None;
    assert!(State::parse(&secret).is_err());
    let salvaged = State::salvage(&secret, now()).unwrap();
    assert_eq!(salvaged.active, state.active);
    secret.data.as_mut().unwrap().remove("active.key");
    assert_eq!(State::salvage(&secret, now()), None);
}

#[test]
fn debug_output_holds_no_private_key() {
    let text = format!("{:?}", states()[2]);
    assert!(text.contains("CN=test-ca 1") && !text.contains("PRIVATE"), "{text}");
}

proptest! {
    #[test]
    fn any_secret_can_be_parsed(
        data in prop::collection::btree_map(
            prop::sample::select(vec!["ca.crt", "active.crt", "active.key", "next.crt"]),
            prop::collection::vec(any::<u8>(), 0..100),
            0..4,
        ),
        phase in "steady|prepared|activated|.{0,5}",
        generation in "[0-9]{1,30}|.{0,5}",
    ) {
        let annotations = [
            (PHASE, phase),
            (GENERATION, generation),
            (PHASE_SINCE, "2026-01-02T03:04:05Z".to_owned()),
        ];
        let secret = Secret {
            metadata: ObjectMeta {
                annotations: Some(
                    annotations.map(|(name, value)| (name.to_owned(), value)).into(),
                ),
                ..ObjectMeta::default()
            },
            data: Some(
                data.into_iter()
                    .map(|(key, value)| (key.to_owned(), ByteString(value)))
                    .collect(),
            ),
            ..Secret::default()
        };
        prop_assert!(State::parse(&secret).is_err());
        prop_assert_eq!(State::salvage(&secret, now()), None);
    }
}
