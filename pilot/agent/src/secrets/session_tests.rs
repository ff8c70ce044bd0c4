use pilot_xds::messages::Status;
use proptest::prelude::*;

use super::*;

/// Secrets by name and version.
fn find(secrets: &[(&str, u64)]) -> impl Fn(&str) -> Option<VersionedSecret> {
    move |name| {
        let version = secrets.iter().find(|(known, _)| *known == name)?.1;
        let secret = Secret { name: name.to_owned(), ..Secret::default() };
        Some(VersionedSecret { version, secret })
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn request(subscribed: &[&str], nonce: &str) -> DiscoveryRequest {
    DiscoveryRequest {
        resource_names: names(subscribed),
        response_nonce: nonce.to_owned(),
        ..DiscoveryRequest::default()
    }
}

fn delta(subscribe: &[&str], unsubscribe: &[&str], nonce: &str) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        resource_names_subscribe: names(subscribe),
        resource_names_unsubscribe: names(unsubscribe),
        response_nonce: nonce.to_owned(),
        ..DeltaDiscoveryRequest::default()
    }
}

fn rejection(reason: &str) -> Status {
    Status { code: 13, message: reason.to_owned() }
}

#[test]
fn secret_is_sent_once_and_again_when_it_changes() {
    let mut session = Session::default();
    assert_eq!(session.receive(request(&["default"], "")).subscribed, ["default"]);
    assert_eq!(session.response(find(&[])), None);
    let response = session.response(find(&[("default", 4)])).unwrap();
    assert_eq!((response.version_info.as_str(), response.nonce.as_str()), ("4", "1"));
    assert_eq!(response.resources.len(), 1);
    assert_eq!(session.response(find(&[("default", 4)])), None);
    let received = session.receive(request(&["default"], "1"));
    assert_eq!(received.subscribed, names(&[]));
    let answer = Answer { secrets: vec![("default".to_owned(), 4)], rejected: None };
    assert_eq!(received.answer, Some(answer));
    assert_eq!(session.response(find(&[("default", 4)])), None);
    assert_eq!(session.response(find(&[("default", 5)])).unwrap().nonce, "2");
}

#[test]
fn rejected_secret_is_not_sent_again() {
    let mut session = Session::default();
    session.receive(request(&["ROOTCA"], ""));
    session.response(find(&[("ROOTCA", 1)])).unwrap();
    let nack =
        DiscoveryRequest { error_detail: Some(rejection("no CA")), ..request(&["ROOTCA"], "1") };
    let received = session.receive(nack);
    assert_eq!(received.answer.unwrap().rejected.as_deref(), Some("no CA"));
    assert_eq!(session.response(find(&[("ROOTCA", 1)])), None);
    assert!(session.response(find(&[("ROOTCA", 2)])).is_some());
}

#[test]
fn request_with_an_old_nonce_is_ignored() {
    let mut session = Session::default();
    session.receive(request(&["default"], ""));
    session.response(find(&[("default", 1)])).unwrap();
    session.response(find(&[("default", 2)])).unwrap();
    assert_eq!(session.receive(request(&["default", "ROOTCA"], "1")), Received::default());
    assert_eq!(session.receive(request(&["default"], "2")).answer.unwrap().secrets[0].1, 2);
}

#[test]
fn nonce_of_an_earlier_stream_is_no_answer() {
    let mut session = Session::default();
    let received = session.receive(request(&["default"], "7"));
    assert_eq!((received.subscribed, received.answer), (names(&["default"]), None));
    assert!(session.response(find(&[("default", 1)])).is_some());
}

#[test]
fn state_of_the_world_has_all_subscribed_secrets() {
    let mut session = Session::default();
    session.receive(request(&["ROOTCA", "default"], ""));
    // A missing secret delays no other one.
    assert_eq!(session.response(find(&[("ROOTCA", 1)])).unwrap().resources.len(), 1);
    let both = [("ROOTCA", 1), ("default", 2)];
    assert_eq!(session.response(find(&both)).unwrap().resources.len(), 2);
    let received = session.receive(request(&["default"], "2"));
    assert_eq!(received.unsubscribed, ["ROOTCA"]);
    assert_eq!(session.response(find(&[("ROOTCA", 3), ("default", 2)])), None);
}

#[test]
fn delta_response_has_changed_secrets_only() {
    let mut session = Session::default();
    let received = session.receive_delta(delta(&["ROOTCA", "default"], &[], ""));
    assert_eq!(received.subscribed, ["ROOTCA", "default"]);
    let versions = |response: DeltaDiscoveryResponse| -> Vec<_> {
        response.resources.into_iter().map(|it| (it.name, it.version)).collect()
    };
    let of = |name: &str, version: &str| (name.to_owned(), version.to_owned());
    let both = [("ROOTCA", 1), ("default", 2)];
    let response = session.delta_response(find(&both)).unwrap();
    assert_eq!(versions(response), [of("ROOTCA", "1"), of("default", "2")]);
    let response = session.delta_response(find(&[("ROOTCA", 1), ("default", 3)])).unwrap();
    assert_eq!(versions(response), [of("default", "3")]);
    // An old nonce changes subscriptions all the same.
    let received = session.receive_delta(delta(&[], &["ROOTCA"], "1"));
    assert_eq!((received.unsubscribed, received.answer), (names(&["ROOTCA"]), None));
    assert_eq!(session.delta_response(find(&[("ROOTCA", 9), ("default", 3)])), None);
}

#[test]
fn repeated_delta_subscription_is_sent_again() {
    let mut session = Session::default();
    session.receive_delta(delta(&["default"], &[], ""));
    assert!(session.delta_response(find(&[("default", 1)])).is_some());
    assert_eq!(session.receive_delta(delta(&["default"], &[], "")).subscribed, names(&[]));
    assert!(session.delta_response(find(&[("default", 1)])).is_some());
}

#[test]
fn names_of_an_earlier_delta_stream_are_subscribed() {
    let mut session = Session::default();
    let versions = [("default".to_owned(), "1".to_owned())].into();
    let request =
        DeltaDiscoveryRequest { initial_resource_versions: versions, ..delta(&[], &[], "") };
    assert_eq!(session.receive_delta(request).subscribed, ["default"]);
    assert!(session.delta_response(find(&[("default", 1)])).is_some());
}

proptest! {
    /// Whatever the order of requests and changes, the last response has the newest version.
    #[test]
    fn newest_version_is_always_sent(steps in proptest::collection::vec(0_u8..4, 1..40)) {
        let mut session = Session::default();
        session.receive(request(&["default"], ""));
        let (mut version, mut sent, mut nonce) = (1, None, String::new());
        for step in steps {
            match step {
                0 => version += 1,
                1 => { session.receive(request(&["default"], &nonce)); }
                2 => { session.receive(request(&["default"], "0")); }
                _ => {
                    let nack = DiscoveryRequest {
                        error_detail: Some(rejection("no")), ..request(&["default"], &nonce)
                    };
                    session.receive(nack);
                }
            }
            if let Some(response) = session.response(find(&[("default", version)])) {
                prop_assert_ne!(sent, Some(version));
                sent = Some(version);
                nonce = response.nonce;
            }
            prop_assert_eq!(sent, Some(version));
        }
    }
}
