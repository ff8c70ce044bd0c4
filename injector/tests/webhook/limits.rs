//! Slow and greedy clients.

use std::io::Read;
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Client, JSON, is_end, review, tcp, trusting, try_plain_over};
use crate::flood::{Flood, Opening};
use crate::program::{self, Program};

#[test]
fn slow_handshake_is_ended() {
    let program = Program::start(&["--handshake-timeout", "100ms"]);
    let mut stream = tcp(program.https).unwrap();
    assert!(is_cut(&mut stream));
    let failures = "sidecar_injector_handshake_failures_total{cause=\"timeout\"}";
    program.metric_becomes(failures, 1.0);
    program.metric_becomes("sidecar_injector_connections", 0.0);
}

#[test]
fn plain_text_on_the_tls_port_is_harmless() {
    let program = Program::start(&[]);
    let mut stream = tcp(program.https).unwrap();
    std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut alert = Vec::new();
    let _ = stream.read_to_end(&mut alert);
    let failures = "sidecar_injector_handshake_failures_total{cause=\"not_tls\"}";
    program.metric_becomes(failures, 1.0);
    assert_eq!(program.connect().ask("GET", "/ready", "", b"").status, 200);
}

#[test]
fn slow_request_head_is_ended() {
    let program = Program::start(&["--header-timeout", "2s"]);
    let mut client = program.connect();
    client.send(b"POST /inject HTTP/1.1\r\nHost:");
    assert!(client.is_closed());
    expired(&program, "head");
}

#[test]
fn slow_head_of_a_later_request_is_ended() {
    let program = Program::start(&["--header-timeout", "2s"]);
    let mut client = program.connect();
    assert_eq!(client.ask("GET", "/ready", "", b"").status, 200);
    client.send(b"POST /inject HTTP/1.1\r\nHost:");
    assert!(client.is_closed());
    expired(&program, "head");
}

#[test]
fn idle_connection_ends_at_the_idle_timeout() {
    let program = Program::start(&["--header-timeout", "2s", "--idle-timeout", "4s"]);
    let mut client = program.connect();
    assert_eq!(client.ask("GET", "/ready", "", b"").status, 200);
    assert!(client.is_closed());
    // If it counted as a slow head, the phase would be `head`.
    expired(&program, "idle");
}

#[test]
fn unused_connection_counts_as_idle() {
    let program = Program::start(&["--header-timeout", "1s", "--idle-timeout", "4s"]);
    let mut client = program.connect();
    assert!(client.is_closed());
    expired(&program, "idle");
}

#[test]
fn slow_body_is_answered_with_an_error() {
    let program = Program::start(&[]);
    let mut client = program.connect();
    let head = "POST /inject?timeout=400ms HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n";
    client.send(format!("{head}{JSON}\r\n{{").as_bytes());
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("connection")), (408, Some("close")));
    assert!(client.is_closed());
}

#[test]
fn slow_bodies_delay_no_review() {
    let program = Program::start(&["--max-reviews", "1", "--review-timeout", "1h"]);
    let slow: Vec<_> = (0..8).map(|_| busy(&program)).collect();
    assert_eq!(program.connect().review("/inject?timeout=60s", &skipped(0))["allowed"], true);
    // They are still read completely.
    for mut client in slow {
        client.send(b"}");
        assert_eq!(client.answer().status, 400);
    }
}

#[test]
fn slow_large_bodies_delay_no_large_review() {
    let program = Program::start(&["--review-timeout", "1h"]);
    let mut slow: Vec<_> = (0..8).map(|index| large(&program, index * (32 << 10))).collect();
    for length in [70 << 10, 1 << 20, 4 << 20] {
        let response = program.connect().review("/inject?timeout=60s", &skipped(length));
        assert_eq!(response["allowed"], true);
    }
    // A stalled body that holds a share of the body budget loses its connection. One without such a
    // share has the time of a review.
    for client in &mut slow[1..] {
        let answer = client.answer();
        assert_eq!((answer.status, answer.header("connection")), (408, Some("close")));
    }
    let slow = "sidecar_injection_total{result=\"failed\",reason=\"body_too_slow\"}";
    program.metric_becomes(slow, 7.0);
}

#[test]
fn simultaneous_large_bodies_are_all_answered() {
    let program = Program::start(&["--review-timeout", "1h"]);
    let whole = &review(&skipped(5 << 20)).to_string();
    let clients: Vec<_> = (0..12).map(|_| program.connect()).collect();
    std::thread::scope(|scope| {
        for mut client in clients {
            scope.spawn(move || {
                let head = "POST /inject HTTP/1.1\r\nHost: t\r\n";
                let length = whole.len();
                client.send(format!("{head}{JSON}Content-Length: {length}\r\n\r\n").as_bytes());
                client.send(whole.as_bytes());
                assert_eq!(client.answer().review()["allowed"], true);
            });
        }
    });
}

#[test]
fn connections_are_limited() {
    let program = Program::start(&["--max-connections", "2", "--review-timeout", "1h"]);
    // A connection with half a body does not keep others waiting: the server may close it.
    let (mut first, mut second) = (busy(&program), busy(&program));
    assert_eq!(program.connect().try_ready().unwrap(), 200);
    assert!(first.is_closed());
    second.send(b"}");
    assert_eq!(second.answer().status, 400);
    program.metric_becomes("sidecar_injector_displaced_connections_total", 1.0);
}

#[test]
fn probes_are_answered_while_plain_ports_are_flooded() {
    let program = Program::start(&["--probeAddr", "127.0.0.1:0"]);
    let probe = program.probe.unwrap();
    for address in [probe, program.admin] {
        let silent = Flood::start(address, 1, 200, Opening::Plain(b""));
        let heads =
            Flood::start(address, 50, 200, Opening::Plain(b"GET /healthz/live HTTP/1.1\r\n"));
        silent.until_dropped();
        heads.until_dropped();
        // By our manifests, the kubelet waits for two seconds, and acts when two probes in a row
        // fail.
        for path in ["/healthz/live", "/healthz/ready"] {
            let mut failed = 0;
            for round in 0..30 {
                let mut stream = tcp(address).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
                match try_plain_over(&mut stream, "GET", path, "") {
                    Ok(answer) => {
                        assert_eq!(answer.status, 200, "{address} {path} {round}");
                        failed = 0;
                    }
                    Err(error) => {
                        failed += 1;
                        assert!(failed < 2, "{address} {path} {round}: {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn flood_from_one_address_blocks_no_other() {
    floods(1);
}

#[test]
fn flood_from_many_addresses_blocks_no_other() {
    floods(50);
}

/// Calls on new and on kept connections during a flood of useless ones.
fn floods(sources: u8) {
    let program = Program::start(&["--max-connections", "128", "--review-timeout", "1h"]);
    let (https, ca) = program.endpoint();
    let config = Arc::new(trusting(&ca, rustls::DEFAULT_VERSIONS).with_no_client_auth());
    let mut kept: Vec<_> = (0..14).map(|_| program.connect()).collect();
    for client in &mut kept {
        assert_eq!(client.try_ready().unwrap(), 200);
    }
    let head = b"POST /inject HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n";
    let body = b"POST /inject HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
    let skipped = skipped(0);
    for opening in [
        Opening::Plain(b""),
        // The beginning of a handshake.
        Opening::Plain(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        Opening::Tls(Arc::clone(&config), b""),
        Opening::Tls(Arc::clone(&config), head),
        Opening::Tls(Arc::clone(&config), body),
    ] {
        let flood = Flood::start(https, sources, 200, opening);
        flood.until_dropped();
        for client in &mut kept {
            assert_eq!(program.connect().review("/inject", &skipped)["allowed"], true);
            assert_eq!(client.review("/inject", &skipped)["allowed"], true);
        }
    }
}

#[test]
fn idle_connections_in_all_slots_block_no_client() {
    // A process may have 1024 open files by default, and tests of this program run side by side.
    let program = Program::start(&["--max-connections", "256"]);
    let skipped = json!({"uid": "u", "operation": "UPDATE", "object": {}});
    let mut first = program.connect();
    first.review("/inject", &skipped);
    // Idle connections of both kinds: most have never sent a request, one has.
    let mut idle: Vec<_> = (0..255).map(|_| program.connect()).collect();
    program.metric_becomes("sidecar_injector_connections", 256.0);
    for _ in 0..10 {
        assert_eq!(program.connect().review("/inject", &skipped)["allowed"], true);
    }
    // The connection with a request stays. The one that has waited longest without a request is
    // closed.
    assert_eq!(first.review("/inject", &skipped)["allowed"], true);
    assert!(idle[0].is_closed());
    assert!(program.metric("sidecar_injector_displaced_connections_total") >= 1.0);
    assert_eq!(idle.last_mut().unwrap().try_ready().unwrap(), 200);
}

#[test]
fn connections_without_handshake_block_no_client() {
    let program = Program::start(&["--max-connections", "8", "--handshake-timeout", "1h"]);
    let mut first = program.connect();
    assert_eq!(first.try_ready().unwrap(), 200);
    let mut silent: Vec<_> = (0..7).map(|_| tcp(program.https).unwrap()).collect();
    program.metric_becomes("sidecar_injector_connections", 8.0);
    assert_eq!(program.connect().try_ready().unwrap(), 200);
    assert!(is_cut(&mut silent[0]));
    assert_eq!(first.try_ready().unwrap(), 200);
}

#[test]
fn idle_connections_cannot_exhaust_file_descriptors() {
    // Limits of service managers and container runtimes: the soft limit can be raised or not.
    for (soft, hard, slots) in [(256, 4096, 400), (512, 512, 512 - 288)] {
        let directory = TempDir::new().unwrap();
        let program = program::command();
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={soft}:{hard}")).arg(program.get_program());
        for (name, value) in program.get_envs() {
            assert!(value.is_none());
            command.env_remove(name);
        }
        let ca = directory.path().join("ca.pem");
        let flags = ["--writeCaFile", ca.to_str().unwrap(), "--max-connections", "400"];
        let flags = [&flags[..], &["--handshake-timeout", "1h"]].concat();
        let program = Program::spawn_by(command, directory, &flags);
        let silent: Vec<_> = (0..400).map(|_| tcp(program.https).unwrap()).collect();
        program.metric_becomes("sidecar_injector_connections", f64::from(slots));
        assert_eq!(program.connect().try_ready().unwrap(), 200);
        assert_eq!(program.count("accept failed"), 0);
        drop(silent);
    }
}

#[test]
fn http2_client_loses_only_its_connection() {
    let program = Program::start(&[]);
    let mut client = program.connect();
    // The HTTP/2 preface, settings, and streams that are opened and reset.
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let reset = [0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8];
    let mut flood = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    flood.extend(settings);
    (0..1000).for_each(|_| flood.extend(reset));
    client.send(&flood);
    assert!(client.is_closed());
    program.metric_becomes("sidecar_injector_connections", 0.0);
    assert_eq!(program.connect().try_ready().unwrap(), 200);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let program = Program::start(&[]);
    let mut client = program.connect();
    let requests: Vec<u8> = (0..200)
        .flat_map(|index| {
            let request = json!({"uid": index.to_string(), "operation": "UPDATE", "object": {}});
            let body = review(&request).to_string();
            let length = body.len();
            let head = "POST /inject HTTP/1.1\r\nHost: t\r\n";
            format!("{head}{JSON}Content-Length: {length}\r\n\r\n{body}").into_bytes()
        })
        .collect();
    client.send(&requests);
    for index in 0..200 {
        assert_eq!(client.answer().review()["uid"], index.to_string());
    }
}

#[test]
fn request_head_size_is_limited() {
    let program = Program::start(&[]);
    let many = "a: b\r\n".repeat(40 << 10);
    let long = format!("a: {}\r\n", "b".repeat(200 << 10));
    for headers in [many, long] {
        let mut client = program.connect();
        // The server may close the connection before all of it is sent.
        let head = format!("GET /ready HTTP/1.1\r\nHost: t\r\n{headers}\r\n");
        if let Err(error) = client.try_send(head.as_bytes()) {
            assert!(is_end(&error), "{error}");
            continue;
        }
        // Unread bytes may make the kernel reset the connection before the answer arrives.
        match client.try_answer() {
            Ok(answer) => assert_eq!(answer.status, 431),
            Err(error) => assert!(is_end(&error), "{error}"),
        }
    }
    assert_eq!(program.connect().try_ready().unwrap(), 200);
}

/// Returns a client of which half a review has arrived.
fn busy(program: &Program) -> Client {
    let mut client = program.connect();
    let before = program.metric("sidecar_injection_requests_total");
    client.send(b"POST /inject HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n");
    client.send(format!("{JSON}\r\n{{").as_bytes());
    program.metric_becomes("sidecar_injection_requests_total", before + 1.0);
    client
}

/// Returns a client that announced a large body and sent `length` bytes of it.
fn large(program: &Program, length: usize) -> Client {
    let mut client = program.connect();
    let before = program.metric("sidecar_injection_requests_total");
    client.send(b"POST /inject HTTP/1.1\r\nHost: t\r\nContent-Length: 6000000\r\n");
    client.send(format!("{JSON}\r\n{{").as_bytes());
    client.send(&vec![b' '; length]);
    program.metric_becomes("sidecar_injection_requests_total", before + 1.0);
    client
}

/// Returns a skipped request of more than `length` bytes.
fn skipped(length: usize) -> Value {
    json!({"uid": "u", "operation": "UPDATE", "object": {"data": "x".repeat(length)}})
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
