//! Rules of the protocol, one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::state::{State, cluster};
use crate::messages::Status;
use crate::service::Variant::{self, Delta, StateOfTheWorld};
use crate::session::{
    Event, Limits, Name, NameRef, Request, Response, Session, Subscription, TypeView, Version,
};
use crate::type_urls::{
    CLUSTER, ENDPOINT, EXTENSION_CONFIG, HEALTH_INFORMATION, LISTENER, ROUTE, SECRET,
};

/// Stream with a published state.
struct Stream {
    variant: Variant,
    session: Session<State>,
    now: Duration,
}

impl Stream {
    fn new(variant: Variant, state: State) -> Self {
        Self::with_limits(variant, state, Limits::default())
    }

    fn with_limits(variant: Variant, state: State, limits: Limits) -> Self {
        let session = Session::new(variant, limits, state);
        Self { variant, session, now: Duration::ZERO }
    }

    fn event(&mut self, event: Event<'_, State>) -> Vec<Response> {
        self.session.step(self.now, event).unwrap()
    }

    fn request(&mut self, request: Request<'_>) -> Vec<Response> {
        self.event(Event::Request(request))
    }

    /// Sends a subscription, the first or another one.
    fn subscribe(&mut self, type_url: &str, names: &[&str]) -> Vec<Response> {
        self.request(request(self.variant, type_url, names))
    }

    fn unsubscribe(&mut self, type_url: &str, names: &[&str]) -> Vec<Response> {
        let mut request = request(Delta, type_url, &[]);
        request.subscription = changes(&[], names, &[]);
        self.request(request)
    }

    /// Opens a type with the versions of an earlier stream.
    fn resume(&mut self, type_url: &str, names: &[&str], has: &State) -> Vec<Response> {
        let versions = has.versions(type_url);
        let versions: Vec<_> = versions.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let mut request = request(Delta, type_url, names);
        request.subscription = changes(names, &[], &versions);
        self.request(request)
    }

    fn ack(&mut self, response: &Response) -> Vec<Response> {
        self.reply(response, None)
    }

    fn nack(&mut self, response: &Response) -> Vec<Response> {
        let error = Status { code: 13, message: "invalid".to_owned() };
        self.reply(response, Some(error))
    }

    fn reply(&mut self, response: &Response, error: Option<Status>) -> Vec<Response> {
        let nonce = response.nonce.to_string();
        let mut request = request(self.variant, &response.type_url, &[]);
        request.nonce = &nonce;
        request.error = error;
        self.request(request)
    }

    fn publish(&mut self, state: State) -> Vec<Response> {
        self.event(Event::Published(state))
    }

    fn wait(&mut self) -> Vec<Response> {
        self.now += Duration::from_secs(60);
        self.event(Event::Timer)
    }

    /// Acknowledges responses until none comes, and returns all of them.
    fn settle(&mut self, responses: Vec<Response>) -> Vec<Response> {
        let mut all = Vec::new();
        let mut waiting = std::collections::VecDeque::from(responses);
        while let Some(response) = waiting.pop_front() {
            waiting.extend(self.ack(&response));
            all.push(response);
        }
        all
    }

    fn view(&self, type_url: &str) -> TypeView {
        self.session.view().into_iter().find(|view| &*view.type_url == type_url).unwrap()
    }
}

fn request<'a>(variant: Variant, type_url: &'a str, names: &[&'a str]) -> Request<'a> {
    let subscription = match variant {
        Delta => changes(names, &[], &[]),
        StateOfTheWorld => {
            let names = names.iter().map(|name| NameRef::from(*name)).collect();
            Subscription::Whole { names, version: "" }
        }
    };
    Request { type_url, nonce: "", error: None, subscription }
}

fn changes<'a>(
    subscribe: &[&'a str],
    unsubscribe: &[&'a str],
    initial: &[(&'a str, &str)],
) -> Subscription<'a> {
    let names = |names: &[&'a str]| names.iter().map(|name| NameRef::from(*name)).collect();
    let initial =
        initial.iter().map(|(name, version)| (NameRef::from(*name), Version::parse(version)));
    // In the order of the names, as a decoded request has them.
    let initial: BTreeMap<_, _> = initial.collect();
    Subscription::Changes {
        subscribe: names(subscribe),
        unsubscribe: names(unsubscribe),
        initial: initial.into_iter().collect(),
    }
}

/// Type, names and removed names of responses, in the order of the alphabet: `CDS +a -b`.
fn text(responses: &[Response]) -> Vec<String> {
    let line = |response: &Response| {
        let kind = match &*response.type_url {
            CLUSTER => "CDS",
            ENDPOINT => "EDS",
            LISTENER => "LDS",
            ROUTE => "RDS",
            SECRET => "SDS",
            other => other,
        };
        let sent = response.resources.iter().map(|resource| format!(" +{}", resource.name));
        let removed = response.removed.iter().map(|name| format!(" -{name}"));
        let names: BTreeSet<_> = sent.chain(removed).collect();
        [kind.to_owned()].into_iter().chain(names).collect::<String>()
    };
    responses.iter().map(line).collect()
}

fn two_clusters() -> State {
    State::default().cluster("a", 0).cluster("b", 0)
}

#[test]
fn empty_first_request_is_a_wildcard() {
    for variant in [Delta, StateOfTheWorld] {
        for names in [&[][..], &["*"]] {
            let mut stream = Stream::new(variant, two_clusters());
            assert_eq!(text(&stream.subscribe(CLUSTER, names)), ["CDS +a +b"]);
            assert!(stream.view(CLUSTER).wildcard);
        }
    }
}

#[test]
fn types_by_name_have_no_implied_wildcard() {
    for type_url in [ENDPOINT, ROUTE, SECRET] {
        let state = State::default().with(type_url, "a", 0, vec![]);
        let mut stream = Stream::new(Delta, state);
        let responses = stream.subscribe(type_url, &[]);
        assert!(responses[0].resources.is_empty(), "the first request has an empty response");
        assert_eq!(text(&stream.ack(&responses[0])), [""; 0]);
        let kind = text(&responses)[0].clone();
        assert_eq!(text(&stream.subscribe(type_url, &["a"])), [format!("{kind} +a")]);
    }
}

#[test]
fn unsubscribed_wildcard_leaves_explicit_names() {
    let mut stream = Stream::new(Delta, two_clusters());
    let first = stream.subscribe(CLUSTER, &["*", "b"]);
    stream.settle(first);
    assert_eq!(text(&stream.unsubscribe(CLUSTER, &["*"])), [""; 0]);
    let changed = State::default().cluster("a", 1).cluster("b", 1).cluster("c", 0);
    assert_eq!(text(&stream.publish(changed)), ["CDS +b"]);
}

#[test]
fn nothing_is_a_wildcard_and_its_end() {
    let mut stream = Stream::new(Delta, two_clusters());
    let mut first = request(Delta, CLUSTER, &[]);
    first.subscription = changes(&["*"], &["*"], &[]);
    assert_eq!(text(&stream.request(first)), ["CDS"]);
    assert!(!stream.view(CLUSTER).wildcard);
}

#[test]
fn name_unsubscribed_under_a_wildcard_is_answered() {
    let state = two_clusters().with(CLUSTER, "extra", 0, vec![]).on_demand(CLUSTER, "extra");
    let mut stream = Stream::new(Delta, state);
    let first = stream.subscribe(CLUSTER, &["*", "a", "extra"]);
    assert_eq!(text(&stream.settle(first)), ["CDS +a +b +extra"]);
    assert_eq!(text(&stream.unsubscribe(CLUSTER, &["a", "extra"])), ["CDS +a"]);
    let view = stream.view(CLUSTER);
    assert_eq!(view.waiting, [Name::from("extra")], "a listener may use the cluster");
}

#[test]
fn state_of_the_world_replaces_names() {
    let state = State::default().endpoints("a", 0).endpoints("b", 0);
    let mut stream = Stream::new(StateOfTheWorld, state);
    let first = stream.subscribe(ENDPOINT, &["a"]);
    assert_eq!(text(&first), ["EDS +a"]);
    let mut ack = request(StateOfTheWorld, ENDPOINT, &["a", "b"]);
    let nonce = first[0].nonce.to_string();
    ack.nonce = &nonce;
    let second = stream.request(ack);
    assert_eq!(text(&second), ["EDS +b"]);
    let mut ack = request(StateOfTheWorld, ENDPOINT, &["b"]);
    let nonce = second[0].nonce.to_string();
    ack.nonce = &nonce;
    assert_eq!(text(&stream.request(ack)), [""; 0]);
    assert_eq!(stream.view(ENDPOINT).names.len(), 1);
}

#[test]
fn stale_nonce_acknowledges_nothing() {
    for variant in [Delta, StateOfTheWorld] {
        let mut stream = Stream::new(variant, State::default().cluster("a", 0));
        let first = stream.subscribe(CLUSTER, &[]);
        stream.ack(&first[0]);
        let second = stream.publish(State::default().cluster("a", 1));
        assert_eq!(text(&second), ["CDS +a"]);
        let is_expired = |nonce: &str| {
            let request = Request { nonce, ..request(variant, CLUSTER, &[]) };
            stream.session.is_expired(&request)
        };
        assert!(is_expired(&first[0].nonce.to_string()));
        assert!(!is_expired(&second[0].nonce.to_string()) && !is_expired(""));
        assert_eq!(text(&stream.ack(&first[0])), [""; 0]);
        assert_eq!(text(&stream.nack(&first[0])), [""; 0]);
        assert!(stream.session.is_in_flight());
        let view = stream.view(CLUSTER);
        assert_eq!((view.in_flight, view.nacks), (Some(second[0].nonce), 0));
        stream.ack(&second[0]);
        assert!(!stream.session.is_in_flight());
    }
}

#[test]
fn acknowledgement_with_names_is_both() {
    let state = State::default().endpoints("a", 0).endpoints("b", 0);
    let mut stream = Stream::new(Delta, state);
    let first = stream.subscribe(ENDPOINT, &["a"]);
    let mut ack = request(Delta, ENDPOINT, &["b"]);
    let nonce = first[0].nonce.to_string();
    ack.nonce = &nonce;
    assert_eq!(text(&stream.request(ack)), ["EDS +b"]);
    // A stale nonce does not spoil the names.
    let mut stale = request(Delta, ENDPOINT, &["c"]);
    let nonce = first[0].nonce.to_string();
    stale.nonce = &nonce;
    stream.request(stale);
    assert_eq!(stream.view(ENDPOINT).waiting, [Name::from("c")]);
}

#[test]
fn first_request_is_initial_despite_an_old_nonce() {
    for variant in [Delta, StateOfTheWorld] {
        let mut stream = Stream::new(variant, two_clusters());
        let mut first = request(variant, CLUSTER, &[]);
        first.nonce = "17";
        first.error = Some(Status { code: 13, message: "of the old stream".to_owned() });
        assert_eq!(text(&stream.request(first)), ["CDS +a +b"]);
    }
}

#[test]
fn reconnecting_client_gets_changes_only() {
    let old = State::default().listener("a", 0, &[]).listener("b", 0, &[]).listener("c", 0, &[]);
    let new = State::default().listener("a", 0, &[]).listener("b", 1, &[]).listener("d", 0, &[]);
    let mut stream = Stream::new(Delta, new.clone());
    stream.subscribe(CLUSTER, &[]);
    assert_eq!(text(&stream.resume(LISTENER, &[], &old)), ["LDS +b +d -c"]);
    let mut stream = Stream::new(Delta, new.clone());
    stream.subscribe(CLUSTER, &[]);
    assert_eq!(text(&stream.resume(LISTENER, &[], &new)), ["LDS"], "an empty response");
}

#[test]
fn versions_of_another_server_are_replaced() {
    let mut stream = Stream::new(Delta, State::default().cluster("a", 0));
    let mut first = request(Delta, CLUSTER, &[]);
    first.subscription = changes(&[], &[], &[("a", "2026-01-01T00:00:00Z/7")]);
    assert_eq!(text(&stream.request(first)), ["CDS +a"]);
}

#[test]
fn state_of_the_world_resumes_by_its_version() {
    let mut stream = Stream::new(StateOfTheWorld, two_clusters());
    let version = stream.subscribe(CLUSTER, &[])[0].state.unwrap().to_string();
    let resume = |version: &str, state: State| {
        let mut request = request(StateOfTheWorld, CLUSTER, &[]);
        request.subscription = Subscription::Whole { names: vec![], version };
        text(&Stream::new(StateOfTheWorld, state).request(request))
    };
    assert_eq!(resume(&version, two_clusters()), [""; 0]);
    assert_eq!(resume(&version, two_clusters().cluster("c", 0)), ["CDS +a +b +c"]);
}

#[test]
fn endpoints_follow_each_changed_cluster() {
    for variant in [Delta, StateOfTheWorld] {
        let mut stream = Stream::new(variant, two_clusters());
        let clusters = stream.subscribe(CLUSTER, &[]);
        stream.settle(clusters);
        let endpoints = stream.subscribe(ENDPOINT, &["a", "b"]);
        assert_eq!(text(&endpoints), ["EDS +a +b"]);
        let names: &[&str] = if variant == Delta { &[] } else { &["a", "b"] };
        let mut ack = request(variant, ENDPOINT, names);
        let nonce = endpoints[0].nonce.to_string();
        ack.nonce = &nonce;
        stream.request(ack);
        let changed = stream.publish(State::default().cluster("a", 1).cluster("b", 0));
        let clusters = if variant == Delta { "CDS +a" } else { "CDS +a +b" };
        assert_eq!(text(&changed), [clusters, "EDS +a"]);
    }
}

#[test]
fn listeners_wait_for_endpoints_of_clusters_from_before() {
    let state = two_clusters().with(LISTENER, "l", 0, vec![cluster("a")]);
    let mut stream = Stream::new(Delta, state.clone());
    let first = stream.resume(CLUSTER, &[], &state);
    assert_eq!(text(&stream.settle(first)), ["CDS"]);
    assert_eq!(text(&stream.subscribe(LISTENER, &[])), [""; 0]);
    let endpoints = stream.subscribe(ENDPOINT, &["a", "b"]);
    assert_eq!(text(&stream.settle(endpoints)), ["EDS +a +b", "LDS +l"]);
}

#[test]
fn endpoints_before_clusters_follow_the_clusters() {
    let state = State::default().cluster("a", 0);
    let mut stream = Stream::new(Delta, state.clone());
    let first = stream.resume(ENDPOINT, &["a"], &state);
    assert_eq!(text(&stream.settle(first)), ["EDS"]);
    let old = State::default().cluster("a", 1);
    assert_eq!(text(&stream.resume(CLUSTER, &[], &old)), ["CDS +a", "EDS +a"]);
    // And if the endpoints come last.
    let mut stream = Stream::new(Delta, state.clone());
    assert_eq!(text(&stream.resume(CLUSTER, &[], &old)), ["CDS +a"]);
    assert_eq!(text(&stream.resume(ENDPOINT, &["a"], &state)), ["EDS +a"]);
}

#[test]
fn unknown_name_is_removed_and_sent_when_it_appears() {
    let mut stream = Stream::new(Delta, State::default());
    let first = stream.subscribe(ENDPOINT, &["a"]);
    assert_eq!(text(&stream.settle(first)), ["EDS -a"]);
    assert_eq!(text(&stream.publish(State::default().endpoints("b", 0))), [""; 0]);
    assert_eq!(text(&stream.publish(State::default().endpoints("a", 0))), ["EDS +a"]);
}

#[test]
fn on_demand_resource_goes_to_clients_that_name_it() {
    let state = State::default().cluster("a", 0).on_demand(CLUSTER, "a");
    let mut stream = Stream::new(Delta, state);
    let first = stream.subscribe(CLUSTER, &[]);
    assert_eq!(text(&stream.settle(first)), ["CDS"]);
    assert_eq!(text(&stream.subscribe(CLUSTER, &["a"])), ["CDS +a"]);
}

/// Opens all types of a client with one route, and settles them.
fn with_route(variant: Variant) -> Stream {
    let state = State::default().cluster("a", 0).route("r", 0, &["a"]).listener("l", 0, &["r"]);
    let mut stream = Stream::new(variant, state);
    for (type_url, names) in
        [(CLUSTER, &[][..]), (ENDPOINT, &["a"]), (LISTENER, &[]), (ROUTE, &["r"])]
    {
        let responses = stream.subscribe(type_url, names);
        for response in responses {
            let mut ack = request(variant, type_url, if variant == Delta { &[] } else { names });
            let nonce = response.nonce.to_string();
            ack.nonce = &nonce;
            assert_eq!(text(&stream.request(ack)), [""; 0]);
        }
    }
    stream
}

#[test]
fn route_switches_between_addition_and_removal() {
    let mut stream = with_route(Delta);
    let new = State::default().cluster("b", 0).route("r", 1, &["b"]).listener("l", 0, &["r"]);
    let clusters = stream.publish(new);
    assert_eq!(text(&clusters), ["CDS +b"]);
    let endpoints = stream.subscribe(ENDPOINT, &["b"]);
    assert_eq!(text(&endpoints), ["EDS +b"]);
    assert_eq!(text(&stream.ack(&clusters[0])), [""; 0], "the endpoints are not there yet");
    let routes = stream.ack(&endpoints[0]);
    assert_eq!(text(&routes), ["RDS +r"]);
    let removal = stream.ack(&routes[0]);
    assert_eq!(text(&removal), ["CDS -a"]);
    let unsubscribed = stream.unsubscribe(ENDPOINT, &["a"]);
    assert_eq!(text(&unsubscribed), [""; 0]);
    assert_eq!(text(&stream.settle(removal)), ["CDS -a"]);
}

#[test]
fn state_of_the_world_keeps_a_used_cluster() {
    let mut stream = with_route(StateOfTheWorld);
    let new = State::default().cluster("b", 0).route("r", 1, &["b"]).listener("l", 0, &["r"]);
    let clusters = stream.publish(new);
    assert_eq!(text(&clusters), ["CDS +a +b"], "the old cluster is not in the new state");
}

#[test]
fn rejected_cluster_holds_no_routes_back() {
    let mut stream = with_route(Delta);
    let new = State::default().cluster("a", 0).cluster("b", 0).route("r", 1, &["a", "b"]).listener(
        "l",
        0,
        &["r"],
    );
    let clusters = stream.publish(new);
    assert_eq!(text(&clusters), ["CDS +b"]);
    assert_eq!(text(&stream.nack(&clusters[0])), ["RDS +r"], "`a` has its new routes");
    let view = stream.view(CLUSTER);
    let rejected = view.names.iter().find(|name| &*name.name == "b").unwrap();
    assert_eq!(rejected.rejected.as_ref().unwrap().reason, "invalid");
    assert_eq!((rejected.acknowledged, view.nacks), (None, 1));
}

#[test]
fn rejected_endpoints_hold_no_routes_back() {
    let state = || State::default().cluster("a", 0).cluster("b", 0).route("r", 0, &["a", "b"]);
    let mut stream = Stream::new(Delta, state().listener("l", 0, &["r"]));
    let clusters = stream.subscribe(CLUSTER, &[]);
    stream.ack(&clusters[0]);
    let endpoints = stream.subscribe(ENDPOINT, &["a", "b"]);
    stream.subscribe(LISTENER, &[]);
    assert_eq!(text(&stream.subscribe(ROUTE, &["r"])), [""; 0]);
    let a = stream.nack(&endpoints[0]);
    let b = stream.ack(&a[0]);
    assert_eq!(text(&b), ["EDS +b"]);
    assert_eq!(text(&stream.nack(&b[0])), ["RDS +r"]);
}

#[test]
fn rejected_update_of_a_used_cluster_holds_nothing_back() {
    let mut stream = with_route(Delta);
    let update = State::default().cluster("a", 1).route("r", 0, &["a"]).listener("l", 0, &["r"]);
    let responses = stream.publish(update);
    assert_eq!(text(&responses), ["CDS +a", "EDS +a"]);
    stream.nack(&responses[0]);
    stream.ack(&responses[1]);
    let update = State::default().cluster("a", 1).route("r", 1, &["a"]).listener("l", 0, &["r"]);
    assert_eq!(text(&stream.publish(update)), ["RDS +r"]);
}

#[test]
fn nack_blames_no_resource_beside_an_unsubscribed_one() {
    let mut stream = Stream::new(Delta, two_clusters());
    let both = stream.subscribe(ENDPOINT, &["a", "b"]);
    assert_eq!(text(&both), ["EDS +a +b"]);
    stream.unsubscribe(ENDPOINT, &["a"]);
    assert_eq!(text(&stream.nack(&both[0])), ["EDS +b"], "the culprit may have been the other");
}

#[test]
fn rejected_response_is_sent_again_singly_once() {
    for variant in [Delta, StateOfTheWorld] {
        let mut stream = Stream::new(variant, two_clusters().cluster("c", 0));
        let all = stream.subscribe(CLUSTER, &[]);
        assert_eq!(text(&all), ["CDS +a +b +c"]);
        let a = stream.nack(&all[0]);
        assert_eq!(text(&a), ["CDS +a"]);
        let b = stream.ack(&a[0]);
        let whole = variant == StateOfTheWorld;
        assert_eq!(text(&b), [if whole { "CDS +a +b" } else { "CDS +b" }]);
        let c = stream.nack(&b[0]);
        assert_eq!(text(&c), [if whole { "CDS +a +c" } else { "CDS +c" }]);
        assert_eq!(text(&stream.ack(&c[0])), [""; 0]);
        assert_eq!(text(&stream.publish(two_clusters().cluster("c", 0))), [""; 0]);
        let view = stream.view(CLUSTER);
        let accepted: Vec<_> = view.names.iter().map(|name| name.acknowledged.is_some()).collect();
        assert_eq!(accepted, [true, false, true]);
        let fixed = State::default().cluster("a", 0).cluster("b", 1).cluster("c", 0);
        assert_eq!(text(&stream.publish(fixed)), [if whole { "CDS +a +b +c" } else { "CDS +b" }]);
    }
}

#[test]
fn changes_wait_for_the_acknowledgement() {
    let mut stream = Stream::new(Delta, State::default().endpoints("a", 0));
    let first = stream.subscribe(ENDPOINT, &["a"]);
    for content in 1..100 {
        assert_eq!(text(&stream.publish(State::default().endpoints("a", content))), [""; 0]);
    }
    let second = stream.ack(&first[0]);
    assert_eq!(text(&second), ["EDS +a"]);
    assert_eq!(text(&stream.ack(&second[0])), [""; 0]);
}

#[test]
fn named_changes_are_enough() {
    let mut stream = Stream::new(Delta, two_clusters());
    let first = stream.subscribe(CLUSTER, &[]);
    stream.settle(first);
    let mut changed = State::default().cluster("a", 0).cluster("b", 1);
    changed.names_changes = true;
    assert_eq!(text(&stream.publish(changed)), ["CDS +b"]);
}

#[test]
fn empty_resource_is_sent_like_any_other() {
    let mut stream = Stream::new(Delta, State::default().endpoints("a", 0));
    let first = stream.subscribe(ENDPOINT, &["a"]);
    stream.settle(first);
    // Content 1 stands for no endpoints.
    let empty = stream.publish(State::default().endpoints("a", 1));
    assert_eq!((text(&empty), empty[0].removed.len()), (vec!["EDS +a".to_owned()], 0));
}

#[test]
fn secrets_and_extensions_are_never_removed_eagerly() {
    for type_url in [SECRET, EXTENSION_CONFIG] {
        let state = State::default().with(type_url, "a", 0, vec![]);
        let mut stream = Stream::new(Delta, state.clone());
        let first = stream.subscribe(type_url, &["a"]);
        stream.settle(first);
        assert_eq!(text(&stream.publish(state.without(type_url, "a"))), [""; 0]);
        assert_eq!(text(&stream.wait()), [""; 0]);
    }
}

#[test]
fn vanished_cluster_outlives_unmentioned_listeners() {
    let old = two_clusters();
    let mut stream = Stream::new(Delta, State::default().cluster("a", 0));
    let first = stream.resume(CLUSTER, &[], &old);
    assert_eq!(text(&stream.settle(first)), ["CDS"]);
    assert!(stream.session.deadline().is_some());
    assert_eq!(text(&stream.wait()), ["CDS -b"]);
}

#[test]
fn listeners_without_clusters_are_sent_after_a_while() {
    let state = State::default().route("r", 0, &["a"]).listener("l", 0, &["r"]).cluster("a", 0);
    let mut stream = Stream::new(Delta, state);
    assert_eq!(text(&stream.resume(ROUTE, &["r"], &State::default())), [""; 0]);
    assert_eq!(text(&stream.wait()), ["RDS +r"]);
}

#[test]
fn report_of_health_has_no_response() {
    let mut stream = Stream::new(Delta, State::default());
    assert_eq!(text(&stream.subscribe(HEALTH_INFORMATION, &[])), [""; 0]);
    assert_eq!(stream.session.view(), []);
}

#[test]
fn two_streams_of_a_node_are_independent() {
    let mut one = Stream::new(Delta, two_clusters());
    let mut other = Stream::new(Delta, two_clusters());
    one.subscribe(CLUSTER, &[]);
    assert_eq!(text(&other.subscribe(CLUSTER, &[])), ["CDS +a +b"]);
}

#[test]
fn view_shows_sent_and_acknowledged_versions() {
    let mut stream = Stream::new(Delta, State::default().cluster("a", 0));
    let first = stream.subscribe(CLUSTER, &[]);
    let old = stream.view(CLUSTER).names[0].clone();
    assert_eq!((old.sent.is_some(), old.acknowledged), (true, None::<Version>));
    stream.settle(first);
    stream.publish(State::default().cluster("a", 1));
    let view = stream.view(CLUSTER).names[0].clone();
    assert_eq!(view.acknowledged, old.sent);
    assert_ne!(view.sent, old.sent);
}

#[test]
fn routes_wait_for_all_parts_of_their_clusters() {
    let many: Vec<_> = (10..90).map(|number| format!("c{number}")).collect();
    let state = many.iter().fold(State::default(), |state, name| state.cluster(name, 0));
    let names: Vec<_> = many.iter().map(String::as_str).collect();
    let state = state.route("r", 0, &names);
    let mut stream =
        Stream::with_limits(Delta, state, Limits { response_bytes: 1_000, ..Limits::default() });
    let clusters = stream.subscribe(CLUSTER, &[]);
    let routes = stream.subscribe(ROUTE, &["r"]);
    let endpoints = stream.subscribe(ENDPOINT, &names);
    assert_eq!(text(&routes), [""; 0]);
    let all = stream.settle([clusters, endpoints].concat());
    let sizes = |type_url: &str| -> Vec<_> {
        let sent = all.iter().filter(|response| *response.type_url == *type_url);
        sent.map(|response| response.resources.len()).collect()
    };
    assert_eq!(sizes(CLUSTER).iter().sum::<usize>(), 80);
    assert!(sizes(CLUSTER).len() > 3 && sizes(ENDPOINT).len() > 3, "{all:?}");
    assert_eq!(text(&all[all.len() - 1..]), ["RDS +r"]);
}
