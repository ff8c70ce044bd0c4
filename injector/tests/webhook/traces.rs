//! Spans of admissions, as a collector receives them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use data_encoding::HEXLOWER;
use e2e::port::free_port;
use e2e::wait;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Client, JSON, review};
use crate::program::{Program, command};

#[test]
fn admission_is_a_span_in_the_callers_trace() {
    let collector = Collector::start();
    let program = start(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.address),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret"),
        ("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=blue"),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
        ("REVISION", "canary"),
    ]);
    let traceparent = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
    ask(&mut program.connect(), traceparent, &pod("secret"));

    let received = collector.next();
    assert_eq!(received.path, "/v1/traces");
    assert_eq!(received.authorization, "secret");
    let resource = &received.request.resource_spans[0].resource.as_ref().unwrap().attributes;
    let resource = texts(resource);
    assert_eq!(resource["service.name"], "sidecar-injector");
    assert_eq!(resource["k8s.cluster.name"], "blue");
    let spans = received.spans();
    let span = spans[0];
    assert_eq!(span.name, "admission");
    assert_eq!(HEXLOWER.encode(&span.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(HEXLOWER.encode(&span.parent_span_id), "b7ad6b7169203331");
    assert!(span.end_time_unix_nano > span.start_time_unix_nano);
    insta::assert_yaml_snapshot!(texts(&span.attributes), @r#"
    k8s.admission.dry_run: "false"
    k8s.admission.uid: u-1
    k8s.namespace.name: shop
    k8s.owner.kind: ReplicaSet
    k8s.owner.name: front
    outrigger.outcome: injected
    outrigger.revision: canary
    "#);
    // Neither values of annotations nor fields of the pod are sent.
    assert!(!format!("{:?}", received.request).contains("secret"));
}

#[test]
fn denied_or_failed_call_is_an_error_span_with_reason() {
    let collector = Collector::start();
    let program = start(&[
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &format!("{}/own/path", collector.address)),
        ("OTEL_SERVICE_NAME", "mine"),
    ]);
    let mut client = program.connect();
    ask(&mut client, "", &json!({"uid": "u-2", "namespace": "shop", "object": "no pod"}));
    client.ask("POST", "/inject", "Content-Type: text/plain\r\n", b"{}");
    // The process sends waiting spans before it ends; a batch would be due only after seconds.
    program.signal(Signal::TERM);

    let received = collector.next();
    assert_eq!(received.path, "/own/path");
    let resource = &received.request.resource_spans[0].resource.as_ref().unwrap().attributes;
    assert_eq!(texts(resource)["service.name"], "mine");
    let spans = received.spans();
    let reasons = spans.iter().map(|span| {
        let attributes = texts(&span.attributes);
        let status = span.status.as_ref().unwrap();
        assert_eq!(status.message, attributes["outrigger.reason"]);
        (attributes["outrigger.outcome"].clone(), status.message.clone(), status.code)
    });
    let expected = [("denied", "bad_pod", 2), ("failed", "bad_content_type", 2)];
    let expected = expected.map(|(outcome, reason, code)| (outcome.into(), reason.into(), code));
    assert_eq!(reasons.collect::<Vec<(String, String, i32)>>(), expected);
}

#[test]
fn sampler_off_or_disabled_sdk_sends_nothing() {
    for (name, value) in [("OTEL_TRACES_SAMPLER", "always_off"), ("OTEL_SDK_DISABLED", "true")] {
        let collector = Collector::start();
        let mut program =
            start(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.address), (name, value)]);
        ask(&mut program.connect(), "", &pod("v"));
        program.signal(Signal::TERM);
        assert!(program.exit().success());
        assert!(collector.received.try_recv().is_err(), "{name}");
    }
}

#[test]
fn silent_collector_delays_no_admission_and_no_exit() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let mut program = start(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &address),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000"),
    ]);
    let mut client = program.connect();
    for _ in 0..20 {
        ask(&mut client, "", &pod("v"));
    }
    // At most four are being sent, and four wait.
    let lost = program.metric("sidecar_injector_trace_spans_lost_total");
    assert!((12.0..=16.0).contains(&lost), "{lost}");
    drop(client);
    program.signal(Signal::TERM);
    assert!(program.exit().success());
}

#[test]
fn spans_rejected_by_the_collector_are_counted() {
    let closed = free_port().unwrap();
    let program = start(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://127.0.0.1:{closed}")),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
    ]);
    ask(&mut program.connect(), "", &pod("v"));
    program.log("spans cannot be sent to the collector");
    program.metric_becomes("sidecar_injector_trace_spans_lost_total", 1.0);
}

#[test]
fn invalid_endpoint_is_rejected_without_its_password() {
    let output = command()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "ht tp://user:hidden@host")
        .args(["--httpsAddr", "127.0.0.1:0", "--adminAddr", "127.0.0.1:0"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("OTEL_EXPORTER_OTLP_ENDPOINT") && said.contains("\nhint: "), "{said}");
    assert!(!said.contains("hidden"), "{said}");
}

fn start(environment: &[(&str, &str)]) -> Program {
    let directory = TempDir::new().unwrap();
    let ca = directory.path().join("ca.pem");
    let mut command = command();
    command.envs(environment.iter().copied());
    let flags = ["--writeCaFile", ca.to_str().unwrap(), "--shutdown-delay", "0s"];
    Program::spawn_by(command, directory, &flags)
}

fn ask(client: &mut Client, headers: &str, request: &Value) {
    let body = review(request).to_string();
    let answer = client.ask("POST", "/inject", &format!("{JSON}{headers}"), body.as_bytes());
    assert_eq!(answer.status, 200);
}

fn pod(annotation: &str) -> Value {
    json!({"uid": "u-1", "namespace": "shop", "object": {
        "metadata": {
            "generateName": "front-",
            "annotations": {"example.com/token": annotation},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "front"}],
        },
        "spec": {"containers": [{"name": "front", "image": annotation}]},
    }})
}

/// A collector that receives spans by OTLP over HTTP.
struct Collector {
    address: String,
    received: Receiver<Received>,
}

struct Received {
    path: String,
    authorization: String,
    request: ExportTraceServiceRequest,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, received) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                std::thread::spawn(move || while take(&stream, &sender).is_some() {});
            }
        });
        Self { address, received }
    }

    fn next(&self) -> Received {
        self.received.recv_timeout(wait::TIMEOUT).unwrap()
    }
}

impl Received {
    fn spans(&self) -> Vec<&Span> {
        let scopes = self.request.resource_spans.iter().flat_map(|spans| &spans.scope_spans);
        scopes.flat_map(|scope| &scope.spans).collect()
    }
}

/// Receives one request; `None` at the end of the connection.
fn take(mut stream: &TcpStream, sender: &Sender<Received>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut authorization) = (0, String::new());
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => value.clone_into(&mut authorization),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let request = ExportTraceServiceRequest::decode(&body[..]).ok()?;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok()?;
    sender.send(Received { path, authorization, request }).ok()
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|any| any.value.as_ref()) {
        Some(Attribute::StringValue(text)) => text.clone(),
        Some(Attribute::BoolValue(value)) => value.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|one| (one.key.clone(), text(&one.value))).collect()
}
