//! Limits, each with its reason.

use std::time::Duration;

use prost::Message;

use super::state::State;
use crate::messages::{DeltaDiscoveryRequest, Node};
use crate::service::Variant;
use crate::session::{
    Close, Event, Limits, NameRef, Request, Session, Subscription, Version, decode_node,
};
use crate::type_urls::{CLUSTER, ENDPOINT};

const LIMITS: Limits = Limits {
    names: 3,
    name_bytes: 70,
    metadata_bytes: 10,
    types: 2,
    response_bytes: 1 << 20,
    requests_per_second: 10,
    request_burst: 5,
    first_request: Duration::from_secs(10),
};

fn request<'a>(type_url: &'a str, names: &[&'a str]) -> Event<'a, State> {
    let subscribe = names.iter().map(|name| NameRef::from(*name)).collect();
    let subscription = Subscription::Changes { subscribe, unsubscribe: vec![], initial: vec![] };
    Event::Request(Request { type_url, nonce: "", error: None, subscription })
}

fn step(
    session: &mut Session<State>,
    millis: u64,
    event: Event<'_, State>,
) -> Result<usize, Close> {
    let responses = session.step(Duration::from_millis(millis), event)?;
    Ok(responses.len())
}

#[test]
fn names_are_limited_in_one_request_and_in_sum() {
    let mut session = Session::new(Variant::Delta, LIMITS, State::default());
    let close = Close::Names { type_url: ENDPOINT.to_owned(), limit: 3 };
    let many = DeltaDiscoveryRequest {
        type_url: ENDPOINT.to_owned(),
        resource_names_subscribe: ["a", "b", "c", "d"].map(str::to_owned).into(),
        ..DeltaDiscoveryRequest::default()
    };
    let many = many.encode_to_vec();
    assert_eq!(Request::decode(Variant::Delta, &many, &LIMITS).unwrap_err(), close);
    step(&mut session, 0, request(ENDPOINT, &["a", "b", "c"])).unwrap();
    assert_eq!(step(&mut session, 0, request(ENDPOINT, &["d"])), Err(close));
}

#[test]
fn long_name_closes_the_stream() {
    let mut session = Session::new(Variant::Delta, LIMITS, State::default());
    let name = "a".repeat(71);
    let closed = step(&mut session, 0, request(ENDPOINT, &[&name])).unwrap_err();
    assert!(closed.to_string().contains("71 bytes"), "{closed}");
}

#[test]
fn types_are_limited() {
    let mut session = Session::new(Variant::Delta, LIMITS, State::default());
    for type_url in [CLUSTER, ENDPOINT] {
        step(&mut session, 0, request(type_url, &[])).unwrap();
    }
    assert_eq!(step(&mut session, 0, request("other", &[])), Err(Close::Types { limit: 2 }));
}

#[test]
fn requests_are_limited_by_the_second() {
    let mut session = Session::new(Variant::Delta, LIMITS, State::default());
    for _ in 0..5 {
        step(&mut session, 0, request(ENDPOINT, &["a"])).unwrap();
    }
    let close = Err(Close::Rate { limit: 10 });
    assert_eq!(step(&mut session.clone(), 0, request(ENDPOINT, &["a"])), close);
    step(&mut session, 100, request(ENDPOINT, &["a"])).unwrap();
    assert_eq!(step(&mut session, 100, request(ENDPOINT, &["a"])), close);
}

#[test]
fn acknowledgements_are_not_limited() {
    let mut session = Session::new(Variant::Delta, LIMITS, State::default());
    let mut responses = session.step(Duration::ZERO, request(CLUSTER, &[])).unwrap();
    for content in 0..100 {
        let nonce = responses[0].nonce.to_string();
        let mut event = request(CLUSTER, &[]);
        if let Event::Request(request) = &mut event {
            request.nonce = &nonce;
        }
        session.step(Duration::ZERO, event).unwrap();
        let changed = Event::Published(State::default().cluster("a", content));
        responses = session.step(Duration::ZERO, changed).unwrap();
    }
}

#[test]
fn silent_client_is_closed() {
    let mut session = Session::new(Variant::Delta, LIMITS, State::default());
    assert_eq!(session.deadline(), Some(LIMITS.first_request));
    assert_eq!(step(&mut session, 9_999, Event::Timer), Ok(0));
    let close = Err(Close::FirstRequest { limit: LIMITS.first_request });
    assert_eq!(step(&mut session, 10_000, Event::Timer), close);
}

#[test]
fn last_of_repeated_initial_versions_counts() {
    let versions = ["a", "b", "c"].map(|content| Version::new(&content).to_string());
    let frames = versions.iter().flat_map(|version| {
        let initial_resource_versions = [("a".to_owned(), version.clone())].into();
        let request = DeltaDiscoveryRequest { initial_resource_versions, ..Default::default() };
        request.encode_to_vec()
    });
    // Concatenated messages are merged.
    let frame: Vec<u8> = frames.collect();
    let request = Request::decode(Variant::Delta, &frame, &LIMITS).unwrap();
    let Subscription::Changes { initial, .. } = request.subscription else { panic!("delta") };
    assert_eq!(initial, [("a".into(), Version::new(&"c"))]);
}

#[test]
fn large_metadata_closes_the_stream() {
    let node = Node { metadata: vec![7; 11].into(), ..Node::default() };
    let node = Some(node.encode_to_vec().into());
    let frame = DeltaDiscoveryRequest { node, ..DeltaDiscoveryRequest::default() };
    let decoded = decode_node(Variant::Delta, &frame.encode_to_vec(), &LIMITS);
    assert_eq!(decoded, Err(Close::Metadata { length: 11, limit: 10 }));
}

#[test]
fn undecodable_request_closes_the_stream() {
    let closed = Request::decode(Variant::Delta, &[0xff], &LIMITS).unwrap_err();
    assert_eq!(closed.status().code(), tonic::Code::InvalidArgument);
}
