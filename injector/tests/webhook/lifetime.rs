//! Life cycle of the process, from start to shutdown.

use std::fs;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::certificate::issue;
use crate::client::{Client, JSON, plain_get, review, tcp, trusting};
use crate::program::{Program, command, until};

#[test]
fn not_ready_before_certificate_and_configuration() {
    let directory = TempDir::new().unwrap();
    let kubeconfig = unreachable_cluster(&directory);
    let mut program =
        Program::spawn(directory, &["--kubeconfig", &kubeconfig, "--shutdown-delay", "0s"]);
    let answer = plain_get(program.admin, "/healthz/ready");
    assert_eq!((answer.status, answer.body.as_str()), (503, "no certificate yet\n"));
    assert_eq!(plain_get(program.admin, "/healthz/live").status, 200);
    program.metric_becomes("sidecar_injector_configuration_generation", 0.0);
    program.signal(Signal::TERM);
    assert_eq!(program.exit().code(), Some(0));
}

#[test]
fn certificate_without_configuration_is_not_ready() {
    let directory = TempDir::new().unwrap();
    let kubeconfig = unreachable_cluster(&directory);
    issue(directory.path());
    let path = |file: &str| directory.path().join(file).to_str().unwrap().to_owned();
    let (certificate, key) = (path("tls.crt"), path("tls.key"));
    let program = Program::spawn(
        directory,
        &["--kubeconfig", &kubeconfig, "--tlsCertFile", &certificate, "--tlsKeyFile", &key],
    );
    let answer = plain_get(program.admin, "/healthz/ready");
    assert_eq!((answer.status, answer.body.as_str()), (503, "no configuration yet\n"));
    // A call at this time fails, so that the webhook's failurePolicy decides.
    let body = review(&json!({"uid": "u", "object": {}})).to_string();
    assert_eq!(program.connect().ask("POST", "/inject", JSON, body.as_bytes()).status, 503);
}

#[test]
fn reviews_are_served_for_a_while_after_sigterm() {
    let mut program = Program::start(&["--shutdown-delay", "1h"]);
    program.signal(Signal::TERM);
    until("readiness is taken back", || plain_get(program.admin, "/healthz/ready").status == 503);
    assert_eq!(plain_get(program.admin, "/ready").body, "shutting down\n");
    assert_eq!(plain_get(program.admin, "/healthz/live").status, 200);
    // API servers that do not know it yet are still served, also on new connections.
    let skipped = json!({"uid": "u", "operation": "UPDATE", "object": {}});
    assert_eq!(program.connect().review("/inject", &skipped)["allowed"], true);
    program.signal(Signal::INT);
    assert_eq!(program.exit().code(), Some(0));
}

#[test]
fn clients_are_disconnected_gracefully_before_exit() {
    let mut program = Program::start(&["--shutdown-delay", "1h"]);
    let mut kept = program.connect();
    let skipped = json!({"uid": "u", "operation": "UPDATE", "object": {}});
    let body = review(&skipped).to_string();
    let answer = kept.ask("POST", "/inject", JSON, body.as_bytes());
    assert_eq!((answer.status, answer.header("connection")), (200, None));
    program.signal(Signal::TERM);
    until("readiness is taken back", || plain_get(program.admin, "/healthz/ready").status == 503);
    for mut client in [kept, program.connect()] {
        let answer = client.ask("POST", "/inject", JSON, body.as_bytes());
        assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
        assert_eq!(answer.review()["allowed"], true);
        assert!(client.is_closed());
    }
    program.signal(Signal::INT);
    assert_eq!(program.exit().code(), Some(0));
}

#[test]
fn rolling_restart_under_load_fails_no_review() {
    let start = || Program::start(&["--shutdown-delay", "1h"]);
    let mut current = start();
    let endpoint = Arc::new(Mutex::new(current.endpoint()));
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (endpoint, stop) = (Arc::clone(&endpoint), Arc::clone(&stop));
            let answered = Arc::clone(&answered);
            // Like an API server, the client keeps its connection until the server closes it.
            std::thread::spawn(move || {
                let skipped = json!({"uid": "u", "operation": "UPDATE", "object": {}});
                let body = review(&skipped).to_string();
                while !stop.load(Ordering::Relaxed) {
                    // A client with the old address connects before the address is removed.
                    let endpoint = endpoint.lock().unwrap();
                    let mut client = Client::connect(endpoint.0, &endpoint.1).unwrap();
                    drop(endpoint);
                    let mut is_kept = true;
                    while is_kept && !stop.load(Ordering::Relaxed) {
                        let answer = client.ask("POST", "/inject", JSON, body.as_bytes());
                        assert_eq!(answer.review()["allowed"], true);
                        is_kept = answer.header("connection") != Some("close");
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for _ in 0..3 {
        let before = answered.load(Ordering::Relaxed);
        until("reviews are answered", || answered.load(Ordering::Relaxed) > before + 100);
        let next = start();
        current.signal(Signal::TERM);
        // The endpoint is removed shortly after the signal.
        current.log("shutting down");
        *endpoint.lock().unwrap() = next.endpoint();
        current.metric_becomes("sidecar_injector_connections", 0.0);
        current.signal(Signal::INT);
        assert_eq!(current.exit().code(), Some(0));
        current = next;
    }
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.join().unwrap();
    }
}

#[test]
fn requests_in_flight_are_answered_at_shutdown() {
    let mut program = Program::start(&["--shutdown-delay", "0s"]);
    let mut idle = program.connect();
    assert_eq!(idle.ask("GET", "/ready", "", b"").status, 200);
    let mut busy = program.connect();
    let body = review(&json!({"uid": "u", "operation": "UPDATE", "object": {}})).to_string();
    let (start, rest) = body.split_at(10);
    let head = format!("POST /inject HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n", body.len());
    busy.send(format!("{head}{JSON}\r\n{start}").as_bytes());
    program.metric_becomes("sidecar_injection_requests_total", 1.0);

    program.signal(Signal::TERM);
    assert!(idle.is_closed());
    let https = program.https;
    until("connections are refused", || TcpStream::connect(https).is_err());
    busy.send(rest.as_bytes());
    let answer = busy.answer();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert_eq!(answer.review()["allowed"], true);
    assert!(busy.is_closed());
    assert_eq!(program.exit().code(), Some(0));
}

#[test]
fn connection_opened_during_shutdown_is_answered() {
    let mut program = Program::start(&["--shutdown-delay", "0s"]);
    let (https, ca) = program.endpoint();
    let config = Arc::new(trusting(&ca, rustls::DEFAULT_VERSIONS).with_no_client_auth());
    // One connection is accepted before the signal, and one is then only in the kernel's queue.
    let accepted = tcp(https).unwrap();
    program.metric_becomes("sidecar_injector_connections", 1.0);
    program.signal(Signal::STOP);
    let waiting = tcp(https).unwrap();
    program.signal(Signal::TERM);
    program.signal(Signal::CONT);
    program.log("shutting down");
    let skipped = json!({"uid": "u", "operation": "UPDATE", "object": {}});
    let body = review(&skipped).to_string();
    for stream in [accepted, waiting] {
        let mut client = Client::connect_over(stream, Arc::clone(&config)).unwrap();
        let answer = client.ask("POST", "/inject", JSON, body.as_bytes());
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(answer.review()["allowed"], true);
    }
    assert_eq!(program.exit().code(), Some(0));
}

#[test]
fn unrelated_signals_are_ignored() {
    let mut program = Program::start(&["--shutdown-delay", "0s"]);
    let mut client = program.connect();
    for (signal, name) in
        [(Signal::HUP, "SIGHUP"), (Signal::USR1, "SIGUSR1"), (Signal::USR2, "SIGUSR2")]
    {
        program.signal(signal);
        assert_eq!(program.log("signal ignored")["signal"], name);
        assert_eq!(client.try_ready().unwrap(), 200);
    }
    program.signal(Signal::QUIT);
    assert_eq!(program.log("shutting down")["signal"], "SIGQUIT");
    assert_eq!(program.exit().code(), Some(0));
}

#[test]
fn shutdown_ends_after_the_grace_period() {
    let flags = ["--shutdown-delay", "0s", "--shutdown-grace", "100ms"];
    let mut program = Program::start(&flags);
    let mut stuck = program.connect();
    let head = "POST /inject HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n";
    stuck.send(format!("{head}{JSON}\r\n{{").as_bytes());
    program.metric_becomes("sidecar_injection_requests_total", 1.0);
    program.signal(Signal::TERM);
    program.log("connections were still busy at the end of the grace period");
    assert_eq!(program.exit().code(), Some(0));
}

#[test]
fn huge_pages_are_not_used() {
    let program = Program::start(&[]);
    let status = fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
    assert!(status.lines().any(|line| line == "THP_enabled:\t0"), "{status}");
    // Memory with the flag `hg` may have huge pages from before the call.
    let maps = fs::read_to_string(format!("/proc/{}/smaps", program.id())).unwrap();
    let mut flags = maps.lines().filter_map(|line| line.strip_prefix("VmFlags: ")).peekable();
    assert!(flags.peek().is_some(), "{maps}");
    assert!(!flags.any(|flags| flags.split(' ').any(|flag| flag == "hg")), "{maps}");
}

#[test]
fn second_process_on_the_same_address_fails() {
    let program = Program::start(&[]);
    let address = program.https.to_string();
    let flags = ["--httpsAddr", &address, "--adminAddr", "127.0.0.1:0"];
    let output = command().args(flags).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("--httpsAddr {address}: ")), "{said}");
}

#[test]
fn client_with_another_ca_fails_alone() {
    let (one, other) = (Program::start(&[]), Program::start(&[]));
    let ca = fs::read(other.path("ca.pem")).unwrap();
    assert!(Client::connect(one.https, &ca).is_err());
    assert_eq!(one.connect().ask("GET", "/ready", "", b"").status, 200);
}

/// Returns the kubeconfig of a cluster that does not answer: port 1 of the loopback address.
fn unreachable_cluster(directory: &TempDir) -> String {
    let path = directory.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
    });
    fs::write(&path, config.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}
