//! Slow and greedy clients.

use std::io::Read;
use std::net::TcpStream;
use std::sync::mpsc::channel;

use serde_json::json;

use crate::client::{Client, JSON, is_end, tcp};
use crate::program::{PATIENCE, Program};

#[test]
fn ends_a_slow_handshake() {
    let program = Program::start(&["--handshake-timeout", "100ms"]);
    let mut stream = tcp(program.https).unwrap();
    assert!(is_cut(&mut stream));
    let failures = "sidecar_injector_handshake_failures_total{cause=\"timeout\"}";
    program.metric_becomes(failures, 1.0);
    program.metric_becomes("sidecar_injector_connections", 0.0);
}

#[test]
fn survives_what_is_not_tls() {
    let program = Program::start(&[]);
    let mut stream = tcp(program.https).unwrap();
    std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut alert = Vec::new();
    let _ = stream.read_to_end(&mut alert);
    let failures = "sidecar_injector_handshake_failures_total{cause=\"error\"}";
    program.metric_becomes(failures, 1.0);
    assert_eq!(program.connect().ask("GET", "/ready", "", b"").status, 200);
}

#[test]
fn ends_a_slow_head() {
    let program = Program::start(&["--header-timeout", "2s"]);
    let mut client = program.connect();
    client.send(b"POST /inject HTTP/1.1\r\nHost:");
    assert!(client.is_closed());
    expired(&program, "head");
}

#[test]
fn ends_a_slow_head_of_a_later_request() {
    let program = Program::start(&["--header-timeout", "2s"]);
    let mut client = program.connect();
    assert_eq!(client.ask("GET", "/ready", "", b"").status, 200);
    client.send(b"POST /inject HTTP/1.1\r\nHost:");
    assert!(client.is_closed());
    expired(&program, "head");
}

#[test]
fn an_idle_connection_outlives_the_time_for_a_head_and_ends_at_its_own() {
    let program = Program::start(&["--header-timeout", "2s", "--idle-timeout", "4s"]);
    let mut client = program.connect();
    assert_eq!(client.ask("GET", "/ready", "", b"").status, 200);
    assert!(client.is_closed());
    // Were it taken for a slow head, that would be the phase.
    expired(&program, "idle");
}

#[test]
fn a_connection_that_was_never_used_is_idle_and_no_slow_head() {
    let program = Program::start(&["--header-timeout", "1s", "--idle-timeout", "4s"]);
    let mut client = program.connect();
    assert!(client.is_closed());
    expired(&program, "idle");
}

#[test]
fn ends_a_slow_body_with_an_answer() {
    let program = Program::start(&[]);
    let mut client = program.connect();
    let head = "POST /inject?timeout=400ms HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n";
    client.send(format!("{head}{JSON}\r\n{{").as_bytes());
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("connection")), (408, Some("close")));
    assert!(client.is_closed());
}

#[test]
fn accepts_no_more_connections_than_allowed() {
    let program = Program::start(&["--max-connections", "2"]);
    let mut first = program.connect();
    let second = program.connect();
    let (sender, third) = channel();
    let (address, ca) = (program.https, std::fs::read(program.path("ca.pem")).unwrap());
    let waiting = std::thread::spawn(move || {
        let client = Client::connect(address, &ca);
        let _ = sender.send(());
        client.unwrap().ask("GET", "/ready", "", b"").status
    });
    // The others go on while it waits.
    for _ in 0..3 {
        first.review("/inject", &json!({"uid": "u", "operation": "UPDATE", "object": {}}));
        program.metric_becomes("sidecar_injector_connections", 2.0);
    }
    assert!(third.try_recv().is_err());
    drop(second);
    third.recv_timeout(PATIENCE).unwrap();
    assert_eq!(waiting.join().unwrap(), 200);
}

fn expired(program: &Program, phase: &str) {
    let name = format!("sidecar_injector_expired_connections_total{{cause=\"{phase}\"}}");
    program.metric_becomes(&name, 1.0);
    program.metric_becomes("sidecar_injector_connections", 0.0);
}

fn is_cut(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    match stream.read(&mut byte) {
        Ok(length) => length == 0,
        Err(error) => is_end(&error),
    }
}
