//! The log does not affect the service: a blocked reader has no effect. Its levels can be changed.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;

use e2e::port::free_port;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Answer, Client, plain, plain_get, plain_over, tcp, tcp_from};
use crate::program::{Program, command, until};

#[test]
fn reviews_are_answered_while_stderr_is_not_read() {
    let mut program = Program::start(&[]);
    program.stop_reading();
    let skipped = json!({"uid": "u", "operation": "UPDATE", "object": {}});
    for _ in 0..50 {
        assert_eq!(program.connect().review("/inject", &skipped)["allowed"], true);
    }
    program.metric_becomes("sidecar_injection_skip_total", 50.0);
}

#[test]
fn reviews_are_answered_while_the_log_is_full() {
    let directory = TempDir::new().unwrap();
    let ca = directory.path().join("ca.pem");
    let mut child = command()
        .args(["--httpsAddr", "127.0.0.1:0", "--adminAddr", "127.0.0.1:0", "--log_as_json"])
        .args(["--shutdown-delay", "0s", "--writeCaFile", ca.to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut listening = Value::Null;
    while listening["message"] != "listening" {
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        listening = serde_json::from_str(&line).unwrap();
    }
    let address = |key: &str| listening[key].as_str().unwrap().parse::<SocketAddr>().unwrap();
    let mut client = Client::connect(address("https"), &std::fs::read(&ca).unwrap()).unwrap();
    // The log is not read from here on. A pipe holds some hundred lines, the queue some thousand.
    let skipped = json!({"uid": "u".repeat(200), "operation": "UPDATE", "object": {}});
    let lost = || {
        let page = plain_get(address("admin"), "/metrics").body;
        let name = "sidecar_injector_log_lines_lost_total ";
        page.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()).unwrap()
    };
    let mut asked = 0;
    while lost() == 0 {
        for _ in 0..500 {
            assert_eq!(client.review("/inject", &skipped)["allowed"], true);
        }
        asked += 500;
        assert!(asked < 50_000, "no line was lost");
    }
    // The end of the process does not wait for the log.
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    until("the program ends", || child.try_wait().unwrap().is_some());
}

#[test]
fn lines_lost_to_a_full_disk_are_counted() {
    let port = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let (https, admin) = (port(), port());
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = command()
        .args(["--httpsAddr", &https.to_string(), "--adminAddr", &admin.to_string()])
        .args(["--shutdown-delay", "0s"])
        .stderr(full)
        .spawn()
        .unwrap();
    until("it listens", || tcp(admin).is_ok());
    until("a line is counted", || {
        let page = plain_get(admin, "/metrics").body;
        let name = "sidecar_injector_log_lines_lost_total ";
        page.lines().any(|line| line.strip_prefix(name).is_some_and(|count| count != "0"))
    });
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    until("the program ends", || child.try_wait().unwrap().is_some());
}

#[test]
fn log_has_no_pod_content_and_no_long_text() {
    let program = Program::start(&[]);
    let container =
        json!({"name": "app", "image": "app", "env": [{"name": "A", "value": "hunter2"}]});
    for metadata in [
        json!({"annotations": {"proxy.istio.io/config": "proxyMetadata: {A: hunter2}\nconcurrency: x"}}),
        json!({"annotations": {"sidecar.istio.io/proxyCPU": "hunter2"}}),
        json!({"annotations": {"inject.istio.io/templates": "hunter2"}}),
        json!({"annotations": {"apm.datadoghq.com/env": "hunter2"}}),
        json!({"labels": {"a": {"hunter2": 1}}}),
        json!({"annotations": {"a": ["hunter2"]}}),
        json!({}),
    ] {
        let pod = json!({"metadata": metadata, "spec": {"containers": [container]}});
        program.connect().review("/inject", &json!({"uid": "u", "object": pod}));
        let line = program.log("admission").to_string();
        assert!(!line.contains("hunter2"), "{line}");
    }
    let long = "x".repeat(100_000);
    let pod = json!({"metadata": {"name": long}, "spec": {"containers": [container]}});
    let request = json!({"uid": long, "namespace": long, "object": pod});
    program.connect().review("/inject", &request);
    let line = program.log("admission").to_string();
    assert!(line.len() < 10_000, "{} bytes", line.len());
}

#[test]
fn log_levels_change_at_run_time() {
    let program = Program::start(&["--log_output_level", "default:info,kube_client:error"]);
    let skipped = json!({"uid": "u", "operation": "UPDATE", "object": {}});
    let levels = || plain_get(program.admin, "/logging").body;
    assert_eq!(levels(), "default:info,kube_client:error\n");
    assert_eq!(set_levels(program.admin, "default:warn").status, 200);
    program.connect().review("/inject", &skipped);

    let answer = set_levels(program.admin, "default:debug");
    assert_eq!((answer.status, answer.body.as_str()), (200, "default:debug\n"));
    assert_eq!(program.log("changing the log levels")["levels"], "default:warn");
    assert_eq!(program.log("log levels changed")["levels"], "default:debug");
    assert_eq!(program.count("admission"), 0);
    program.connect().review("/inject", &skipped);
    program.log("admission");

    let answer = set_levels(program.admin, "default:loud");
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("\"default:loud\" is not a list of"), "{}", answer.body);
    assert_eq!(levels(), "default:debug\n");

    assert_eq!(set_levels(program.admin, "default:none").status, 200);
    program.log("changing the log levels");
    program.connect().review("/inject", &skipped);
    assert_eq!(set_levels(program.admin, "default:info").status, 200);
    program.log("log levels changed");
    assert_eq!(program.count("admission"), 1);
}

#[test]
fn log_levels_change_only_from_loopback() {
    let program = Program::start(&["--adminAddr", "0.0.0.0:0"]);
    // A loopback address other than that of `kubectl port-forward`, as a sidecar uses.
    for (method, path, status) in
        [("GET", "/logging", 403), ("PUT", "/logging", 403), ("GET", "/healthz/ready", 200)]
    {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, program.admin.port()));
        let mut stream = tcp_from(Ipv4Addr::new(127, 0, 0, 6), here).unwrap();
        let answer = plain_over(&mut stream, method, path, "all:debug");
        assert_eq!(answer.status, status, "{method} {path}");
    }
    // The webhook's own port does not serve it either.
    assert_eq!(program.connect().ask("PUT", "/logging", "", b"all:debug").status, 404);
}

fn set_levels(admin: SocketAddr, levels: &str) -> Answer {
    plain(admin, "PUT", "/logging", levels)
}
