//! Queries that name servers answer, and name servers that misbehave.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pilot_agent::dns::message::Transport::{Tcp, Udp};

use crate::client::{query, text, with_size};
use crate::name_server::{Behaviour, NameServer};
use crate::pod::{Agent, Pod, Settings, names};

const AGENT: &str = "127.0.0.1:15053";
const SERVERS: [&str; 2] = ["10.96.0.10", "10.96.0.11"];

/// A pod with two name servers.
struct Stage {
    agent: Agent,
    servers: Vec<NameServer>,
    pod: Pod,
}

impl Stage {
    fn new(behaviours: [Behaviour; 2], adjust: impl FnOnce(&mut Settings)) -> Self {
        let pod = Pod::create();
        let servers = SERVERS.iter().zip(behaviours);
        let servers =
            servers.map(|(address, behaviour)| NameServer::start(&pod.world, address, behaviour));
        let servers: Vec<NameServer> = servers.collect();
        let mut settings = Settings::new(&SERVERS);
        adjust(&mut settings);
        let agent = pod.start(&settings);
        agent.publish(names);
        Self { agent, servers, pod }
    }

    /// Returns the different answers to several queries.
    fn answers(&self) -> Vec<String> {
        let ask = |_| self.pod.ask(Udp, AGENT, "other.example A");
        let mut answers: Vec<String> = (0..QUERIES).map(ask).collect();
        answers.dedup();
        answers
    }
}

#[test]
fn every_name_server_is_asked_some_time() {
    let stage = Stage::new([Behaviour::Answers; 2], |_| {});
    let asked = |server: &NameServer| server.queries.load(Ordering::Relaxed);
    for _ in 0..1000 {
        assert_eq!(stage.pod.ask(Udp, AGENT, "other.example A"), "198.51.100.1");
        if stage.servers.iter().all(|server| asked(server) > 0) {
            return;
        }
    }
    panic!("the order is not random");
}

#[test]
fn next_server_answers_for_a_silent_one() {
    let stage = Stage::new([Behaviour::Drops, Behaviour::Answers], patient);
    assert_eq!(stage.answers(), ["198.51.100.1"]);
    assert_eq!(stage.pod.ask(Tcp, AGENT, "other.example A"), "198.51.100.1");
}

#[test]
fn next_server_answers_for_one_that_refuses() {
    let stage = Stage::new([Behaviour::Refuses, Behaviour::Answers], |_| {});
    assert_eq!(stage.answers(), ["198.51.100.1"]);
    let stage = Stage::new([Behaviour::Refuses, Behaviour::Drops], patient);
    assert_eq!(stage.pod.ask(Udp, AGENT, "other.example A"), "Refused");
}

#[test]
fn without_an_answer_the_query_fails() {
    let stage = Stage::new([Behaviour::Drops; 2], impatient);
    assert_eq!(stage.pod.ask(Udp, AGENT, "other.example A"), "ServFail");
    assert_eq!(stage.pod.ask(Tcp, AGENT, "other.example A"), "ServFail");
    assert_eq!(stage.agent.metrics.upstream_requests.get(), 4);
    assert_eq!(stage.agent.metrics.upstream_failures.get(), 4);
    assert_eq!(stage.pod.ask(Udp, AGENT, "web A"), "10.96.1.1");
}

#[test]
fn absent_name_server_fails_at_once() {
    let stage = Stage::new([Behaviour::Answers; 2], |settings| {
        settings.servers = vec!["192.168.77.1".parse().unwrap()];
    });
    assert_eq!(stage.pod.ask(Udp, AGENT, "other.example A"), "ServFail");
    assert_eq!(stage.pod.ask(Tcp, AGENT, "other.example A"), "ServFail");
}

#[test]
fn forged_answers_are_ignored() {
    let stage = Stage::new([Behaviour::Forges; 2], |_| {});
    assert_eq!(stage.answers(), ["198.51.100.1"]);
    assert_eq!(stage.pod.ask(Tcp, AGENT, "other.example A"), "ServFail");
    let stage = Stage::new([Behaviour::OnlyForges; 2], impatient);
    assert_eq!(stage.pod.ask(Udp, AGENT, "other.example A"), "ServFail");
}

#[test]
fn late_answers_reach_no_other_query() {
    let stage = Stage::new([Behaviour::Lags; 2], impatient);
    let questions = ["one.example A", "two.example AAAA", "three.example A", "four.example A"];
    for asked in questions {
        assert_eq!(stage.pod.ask(Udp, AGENT, asked), "ServFail", "{asked}");
    }
}

#[test]
fn all_servers_are_asked_at_once_if_set() {
    let stage = Stage::new([Behaviour::Drops, Behaviour::Answers], |settings| {
        settings.parallel = true;
    });
    // One after the other, a query would wait for the silent server, except in one of 32 runs.
    assert_eq!(stage.answers(), ["198.51.100.1"]);
}

#[test]
fn truncated_answers_are_completed_over_tcp() {
    let stage = Stage::new([Behaviour::Truncates; 2], |_| {});
    let asked = query("other.example A", 7);
    let small = stage.pod.query(Udp, AGENT, &asked);
    assert!(small.metadata.truncation && small.answers.is_empty());
    let large = stage.pod.query(Udp, AGENT, &with_size(asked.clone(), 4096));
    assert!(!large.metadata.truncation);
    assert_eq!(large.answers.len(), 100);
    let whole = stage.pod.query(Tcp, AGENT, &asked);
    assert_eq!(text(&whole), text(&large));
}

#[test]
fn hundreds_of_forwarded_queries_wait_together() {
    let stage = Stage::new([Behaviour::Lags, Behaviour::Answers], |settings| {
        settings.parallel = true;
    });
    let server = AGENT.parse().unwrap();
    let answered = stage.pod.namespace.run(|| {
        let socket = crate::client::udp(server);
        for id in 0..200 {
            socket.send(&query("other.example A", id).to_vec().unwrap()).unwrap();
        }
        let mut buffer = [0; 512];
        (0..200).map(|_| socket.recv(&mut buffer).expect("an answer")).count()
    });
    assert_eq!(answered.unwrap(), 200);
}

/// Waits long enough for a server that answers.
fn patient(settings: &mut Settings) {
    settings.timeout = Duration::from_secs(2);
}

/// For servers that never answer.
fn impatient(settings: &mut Settings) {
    settings.timeout = Duration::from_millis(200);
}

const QUERIES: usize = 5;
