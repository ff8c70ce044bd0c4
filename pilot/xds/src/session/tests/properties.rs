//! Random states, delays, NACKs and reconnects against the model of Envoy.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::client::{Client, TYPES};
use super::state::{State, cluster, endpoint, route};
use crate::service::Variant;
use crate::session::{Event, Limits, Request, Session};
use crate::type_urls::{CLUSTER, ENDPOINT, LISTENER, ROUTE};

/// Server and client with messages on their way.
struct World {
    variant: Variant,
    session: Session<State>,
    client: Client,
    state: State,
    to_server: VecDeque<Bytes>,
    to_client: VecDeque<Bytes>,
    now: Duration,
}

#[derive(Clone, Debug)]
enum SessionStep {
    ToServer,
    ToClient,
    Publish(Shape),
    Reconnect([usize; 4]),
    Wait,
}

impl World {
    fn new(variant: Variant, state: State, bad: BTreeSet<String>) -> Self {
        let mut client = Client::new(variant, bad);
        let to_server = client.connect([0, 1, 2, 3]).into();
        let session = Session::new(variant, LIMITS, state.clone());
        let to_client = VecDeque::new();
        Self { variant, session, client, state, to_server, to_client, now: Duration::ZERO }
    }

    fn event(&mut self, event: Event<'_, State>) {
        let responses = self.session.step(self.now, event).unwrap();
        let variant = self.variant;
        self.to_client.extend(responses.into_iter().map(|response| response.encode(variant)));
    }

    fn step(&mut self, step: &SessionStep) {
        match step {
            SessionStep::ToServer => {
                if let Some(frame) = self.to_server.pop_front() {
                    let request = Request::decode(self.variant, &frame, &LIMITS).unwrap();
                    self.event(Event::Request(request));
                }
            }
            SessionStep::ToClient => {
                if let Some(frame) = self.to_client.pop_front() {
                    self.to_server.extend(self.client.receive(frame));
                }
            }
            SessionStep::Publish(shape) => {
                self.state = shape.state();
                self.event(Event::Published(self.state.clone()));
            }
            SessionStep::Reconnect(order) => {
                self.to_client.clear();
                self.to_server = self.client.connect(*order).into();
                self.session = Session::new(self.variant, LIMITS, self.state.clone());
                self.now = Duration::ZERO;
            }
            // A client mentions all its types at once.
            SessionStep::Wait if !self.to_server.is_empty() => {}
            SessionStep::Wait => {
                self.now += Duration::from_secs(3);
                self.event(Event::Timer);
            }
        }
    }

    /// Delivers all messages.
    fn drain(&mut self) {
        for _ in 0..1000 {
            if self.to_server.is_empty() && self.to_client.is_empty() {
                if self.now > Duration::from_secs(9) {
                    return;
                }
                self.step(&SessionStep::Wait);
            }
            self.step(&SessionStep::ToServer);
            self.step(&SessionStep::ToClient);
        }
        panic!("server and client never come to rest");
    }

    fn check_equal(&self) {
        for type_url in TYPES {
            let mut wanted = self.state.versions(type_url);
            if matches!(type_url, ENDPOINT | ROUTE) {
                wanted.retain(|name, _| self.client.names(type_url).contains(name));
            }
            assert_eq!(self.client.versions(type_url), wanted, "{type_url}");
        }
        assert!(!self.client.is_warming(), "a cluster waits for its endpoints");
        for view in self.session.view() {
            assert!(view.waiting.is_empty() && view.in_flight.is_none(), "{view:?}");
        }
    }
}

/// Content of a state.
#[derive(Clone, Debug)]
struct Shape {
    clusters: [Option<(u8, usize)>; 5],
    endpoints: [u8; 4],
    routes: [Option<(u8, [bool; 5])>; 3],
    listeners: [Option<(u8, usize, [bool; 5])>; 3],
}

impl Shape {
    fn state(&self) -> State {
        let mut state = State::default();
        state.names_changes = self.endpoints[0] == 0;
        let mut used = BTreeSet::new();
        for (index, found) in self.clusters.iter().enumerate() {
            if let Some((content, endpoints)) = found {
                used.insert(*endpoints);
                let needed = vec![endpoint(&format!("e{endpoints}"))];
                state = state.with(CLUSTER, &format!("c{index}"), *content, needed);
            }
        }
        for index in used {
            state = state.endpoints(&format!("e{index}"), self.endpoints[index]);
        }
        let clusters = |wanted: &[bool; 5]| {
            let wanted = (0..5).filter(|index| wanted[*index] && self.clusters[*index].is_some());
            wanted.map(|index| cluster(&format!("c{index}"))).collect::<Vec<_>>()
        };
        for (index, found) in self.routes.iter().enumerate() {
            if let Some((content, wanted)) = found {
                state = state.with(ROUTE, &format!("r{index}"), *content, clusters(wanted));
            }
        }
        for (index, found) in self.listeners.iter().enumerate() {
            if let Some((content, needed, wanted)) = found {
                let mut references = clusters(wanted);
                if self.routes[*needed].is_some() {
                    references.push(route(&format!("r{needed}")));
                }
                state = state.with(LISTENER, &format!("l{index}"), *content, references);
            }
        }
        state
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let content = || 0..3_u8;
    let clusters = prop::array::uniform5(prop::option::of((content(), 0..4_usize)));
    let endpoints = prop::array::uniform4(content());
    let mask = || prop::array::uniform5(any::<bool>());
    let routes = prop::array::uniform3(prop::option::of((content(), mask())));
    let listeners = prop::array::uniform3(prop::option::of((content(), 0..3_usize, mask())));
    (clusters, endpoints, routes, listeners).prop_map(|(clusters, endpoints, routes, listeners)| {
        Shape { clusters, endpoints, routes, listeners }
    })
}

fn order() -> impl Strategy<Value = [usize; 4]> {
    Just([0, 1, 2, 3]).prop_shuffle()
}

fn steps(reconnects: u32) -> impl Strategy<Value = Vec<SessionStep>> {
    let step = prop_oneof![
        12 => Just(SessionStep::ToServer),
        12 => Just(SessionStep::ToClient),
        3 => shape().prop_map(SessionStep::Publish),
        reconnects => order().prop_map(SessionStep::Reconnect),
        1 => Just(SessionStep::Wait),
    ];
    prop::collection::vec(step, 0..120)
}

fn run(variant: Variant, first: &Shape, steps: &[SessionStep], bad: BTreeSet<String>) -> World {
    let mut world = World::new(variant, first.state(), bad);
    for step in steps {
        world.step(step);
    }
    world.drain();
    world
}

fn published(first: &Shape, steps: &[SessionStep]) -> Vec<State> {
    let later = steps.iter().filter_map(|step| match step {
        SessionStep::Publish(shape) => Some(shape),
        _ => None,
    });
    [first].into_iter().chain(later).map(Shape::state).collect()
}

/// Selects versions of the states that the client rejects.
fn bad(first: &Shape, steps: &[SessionStep], of_256: u8) -> BTreeSet<String> {
    let versions = published(first, steps).into_iter().flat_map(|state| {
        TYPES.into_iter().flat_map(move |kind| state.versions(kind).into_values())
    });
    versions.filter(|version| version.bytes().fold(0, u8::wrapping_add) < of_256).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn delta_client_reaches_each_state(first in shape(), steps in steps(1), order in order()) {
        let mut world = run(Variant::Delta, &first, &steps, BTreeSet::new());
        world.check_equal();
        // Another replica with the same state.
        world.step(&SessionStep::Reconnect(order));
        world.drain();
        prop_assert_eq!(&world.client.received, &vec![]);
        prop_assert_eq!(&world.client.removed, &vec![]);
        world.check_equal();
    }

    #[test]
    fn sotw_client_reaches_each_state(first in shape(), steps in steps(0), order in order()) {
        let mut world = run(Variant::StateOfTheWorld, &first, &steps, BTreeSet::new());
        world.check_equal();
        world.step(&SessionStep::Reconnect(order));
        world.client.repeats = true;
        world.drain();
        world.client.received.retain(|(kind, ..)| matches!(*kind, CLUSTER | LISTENER));
        prop_assert_eq!(&world.client.received, &vec![]);
        prop_assert_eq!(&world.client.removed, &vec![]);
        world.check_equal();
    }

    #[test]
    fn rejected_version_is_sent_twice_per_change(
        first in shape(),
        steps in steps(0),
        variant in prop_oneof![Just(Variant::Delta), Just(Variant::StateOfTheWorld)],
    ) {
        let bad = bad(&first, &steps, 40);
        // The model checks after each message that nothing refers to a missing cluster.
        let world = run(variant, &first, &steps, bad.clone());
        for sent in world.client.received.iter().filter(|(.., version)| bad.contains(version)) {
            let times = world.client.received.iter().filter(|other| *other == sent).count();
            let changes = published(&first, &steps).into_iter().filter(|state| {
                TYPES.iter().any(|kind| state.versions(kind).values().any(|v| *v == sent.2))
            });
            // A client that subscribes to a name again has forgotten its rejection.
            let again = world.client.subscriptions.get(&(sent.0, sent.1.clone()));
            let most = 2 * (changes.count() + again.copied().unwrap_or_default());
            prop_assert!(times <= most, "{:?} was sent {} times, not {}", sent, times, most);
        }
    }
}

const LIMITS: Limits = Limits {
    names: 100,
    name_bytes: 100,
    metadata_bytes: 100,
    types: 16,
    // Two or three resources of the model.
    response_bytes: 150,
    requests_per_second: 1000,
    request_burst: 10_000,
    first_request: Duration::from_secs(3600),
};

/// The client leaves a route and returns to it while the server sends it for the first subscription.
#[test]
fn route_left_and_taken_up_again_is_sent_for_each_subscription() {
    let none = Shape {
        clusters: [None, Some((0, 2)), None, None, None],
        endpoints: [0; 4],
        routes: [None; 3],
        listeners: [None; 3],
    };
    let route = Shape {
        routes: [None, None, Some((0, [false; 5]))],
        listeners: [Some((0, 2, [false; 5])), None, None],
        ..none.clone()
    };
    let other = Shape {
        clusters: [None, Some((0, 2)), None, None, Some((0, 0))],
        listeners: [None, Some((0, 0, [false, false, false, false, true])), None],
        ..none.clone()
    };
    let again = Shape { clusters: [None; 5], ..route.clone() };
    let mut steps = words("SSCSSCS");
    steps.push(SessionStep::Publish(other));
    steps.extend(words("CC"));
    steps.push(SessionStep::Reconnect([0, 1, 2, 3]));
    steps.extend(words("SCSSSSCSCSCS"));
    steps.push(SessionStep::Publish(again));
    let world = run(Variant::Delta, &route, &steps, BTreeSet::new());
    world.check_equal();
}

/// Steps by letters: S is a frame to the server, C one to the client.
fn words(letters: &str) -> Vec<SessionStep> {
    let step = |letter| if letter == 'S' { SessionStep::ToServer } else { SessionStep::ToClient };
    letters.chars().map(step).collect()
}
