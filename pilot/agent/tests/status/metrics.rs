//! Merged metrics: formats, order, and applications that fail.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use e2e::wait;

use crate::agent::{Agent, Settings};
use crate::application::{Application, OPENMETRICS, TEXT, respond, serve_over_tls};
use crate::client::{Answer, get, open_from};
use crate::envoy::Envoy;

/// Scrapes an agent beside Envoy's admin interface and these applications.
fn agent(envoy: &Application, applications: &[&Application]) -> Agent {
    let targets: Vec<String> =
        applications.iter().map(|application| format!("{}:/m", application.port)).collect();
    Agent::start(Settings {
        admin: Some(([127, 0, 0, 1], envoy.port).into()),
        targets: Some(targets.join(",")),
        ..Settings::default()
    })
}

fn envoy() -> Application {
    Application::metrics(
        "text/plain; charset=UTF-8",
        "# TYPE envoy_istio_requests_total counter\nenvoy_istio_requests_total{} 1\n",
    )
}

fn scrape(agent: &Agent) -> Answer {
    let answer = get(agent.address(), "/stats/prometheus", SHORT);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.complete, "{answer:?}");
    assert!(answer.body.contains("istio_agent_scrapes_total "), "{}", answer.body);
    answer
}

/// Failures of the application, as the next page counts them.
fn failures(agent: &Agent) -> u32 {
    let page = scrape(agent).body;
    let series = "istio_agent_scrape_failures_total{type=\"application\"} ";
    let count = page.lines().find_map(|line| line.strip_prefix(series));
    count.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn page_is_in_order_and_in_the_format_of_the_application() {
    let envoy = envoy();
    let (one, two) = (
        Application::metrics(OPENMETRICS, "a 1\n# EOF\n"),
        Application::metrics(OPENMETRICS, "b 2\n# EOF"),
    );
    let answer = scrape(&agent(&envoy, &[&one, &two]));
    assert!(answer.head.contains(&format!("content-type: {OPENMETRICS}")), "{}", answer.head);
    let istio = "# TYPE istio_requests_total counter\nistio_requests_total{} 1\n";
    let expected = format!("\n{istio}a 1\nb 2\n# EOF\n");
    assert!(answer.body.ends_with(&expected), "{}", answer.body);
    assert!(answer.body.starts_with("# HELP istio_agent_scrapes "), "{}", answer.body);
    assert_eq!(answer.body.matches("# EOF").count(), 1);

    let text = Application::metrics(TEXT, "c 3\n\n");
    let answer = scrape(&agent(&envoy, &[&text]));
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    assert!(answer.body.ends_with(&format!("\n{istio}c 3\n\n")), "{}", answer.body);
    assert!(answer.body.contains("# TYPE istio_agent_scrapes_total counter"), "{}", answer.body);
}

#[test]
fn metrics_of_an_application_with_tls_are_merged() {
    let port = serve_over_tls("secure 1\n");
    let annotations = format!(r#"{{"path":"/m","port":"{port}","scheme":"https"}}"#);
    let agent = Agent::start(Settings {
        annotations: Some(annotations),
        admin: Some(([127, 0, 0, 1], envoy().port).into()),
        ..Settings::default()
    });
    let page = scrape(&agent).body;
    assert!(page.ends_with("\nsecure 1\n"), "{page}");
}

#[test]
fn targets_of_both_formats_are_merged_as_text() {
    let negotiating = Application::start(|head, stream| {
        if head.contains("openmetrics") {
            respond(stream, "200 OK", OPENMETRICS, "a 1 # {b=\"c\"} 1\n# EOF\n");
        } else {
            respond(stream, "200 OK", TEXT, "a 1\n");
        }
    });
    let text = Application::metrics(TEXT, "b 2\n");
    let agent = agent(&envoy(), &[&negotiating, &text]);
    let accept = "Accept: application/openmetrics-text,text/plain;q=0.5\r\n";
    let answer = get(agent.address(), "/metrics", accept);
    assert!(answer.head.contains("content-type: text/plain"), "{}", answer.head);
    assert!(answer.body.ends_with("} 1\na 1\nb 2\n"), "{}", answer.body);
}

#[test]
fn query_and_headers_are_passed_on_without_protobuf() {
    let (envoy, application) = (envoy(), Application::metrics(TEXT, "a 1\n"));
    let agent = agent(&envoy, &[&application]);
    let headers = "Accept: application/vnd.google.protobuf;q=0.6,text/plain;version=0.0.4\r\n\
        X-Prometheus-Scrape-Timeout-Seconds: 15.5\r\nUser-Agent: Prometheus/3\r\n\
        Accept-Encoding: gzip\r\nCookie: secret\r\n";
    get(agent.address(), "/stats/prometheus?usedonly", headers);
    let asked = application.requests.lock().unwrap().join("\n");
    for part in [
        "get /m?usedonly http/1.1",
        "accept: text/plain;version=0.0.4\n",
        "x-prometheus-scrape-timeout-seconds: 15.5",
        "user-agent: prometheus/3",
    ] {
        assert!(asked.contains(part), "{asked}");
    }
    assert!(!asked.contains("cookie") && !asked.contains("gzip"), "{asked}");
    let asked = envoy.requests.lock().unwrap().join("\n");
    assert!(asked.contains("get /stats/prometheus?usedonly http/1.1"), "{asked}");
    assert!(!asked.contains("protobuf"), "{asked}");
}

#[test]
fn metrics_of_any_content_type_are_merged() {
    for content_type in ["text/html", "application/octet-stream", "application/json", "text/x; a=b"]
    {
        let application = Application::metrics(content_type, "a 1\n");
        let page = scrape(&agent(&envoy(), &[&application])).body;
        assert!(page.ends_with("} 1\na 1\n"), "{content_type}: {page}");
    }
}

#[test]
fn failing_application_is_counted_and_spoils_nothing() {
    for (name, application, contributes) in [
        (
            "error page",
            Application::start(|_, stream| respond(stream, "500 Oops", TEXT, "a 1\n")),
            "",
        ),
        ("HTML", Application::metrics("text/html", "<html>\n<body>\n"), ""),
        ("protobuf", Application::metrics("application/vnd.google.protobuf", "a 1\n"), ""),
        ("HTML as text", Application::metrics(TEXT, "<html>\n<body>\n"), ""),
        ("invalid line", Application::metrics(TEXT, "a 1\nb{c=\"\n"), "a 1\n"),
        ("silent", Application::start(|_, mut stream| drop(stream.read(&mut [0]))), ""),
        (
            "closes early",
            Application::start(|_, mut stream| {
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\na 1\nb{c=\"";
                stream.write_all(head.as_bytes()).unwrap();
                stream.shutdown(Shutdown::Both).unwrap();
            }),
            "a 1\n",
        ),
        (
            "closes in a long line",
            Application::start(|_, mut stream| {
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\na 1\nb{c=\"";
                stream.write_all((head.to_owned() + &"d".repeat(40_000)).as_bytes()).unwrap();
                stream.shutdown(Shutdown::Both).unwrap();
            }),
            "a 1\n",
        ),
        (
            "endless line",
            Application::start(|_, mut stream| {
                let mut written = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\na 1\nb{c=\"");
                while written.is_ok() {
                    std::thread::sleep(Duration::from_millis(1));
                    written = stream.write_all(&[b'd'; 1024]);
                }
            }),
            "a 1\n",
        ),
        (
            "hangs in the body",
            Application::start(|_, mut stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\na 1\nb").unwrap();
                let _ = stream.read(&mut [0]);
            }),
            "a 1\n",
        ),
        (
            "gzip",
            Application::start(|_, mut stream| {
                let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\na 1\n";
                stream.write_all(head.as_bytes()).unwrap();
            }),
            "",
        ),
        (
            "endless redirects",
            Application::start(|_, mut stream| {
                stream
                    .write_all(b"HTTP/1.1 307 x\r\nLocation: /m\r\nContent-Length: 0\r\n\r\n")
                    .unwrap();
            }),
            "",
        ),
        (
            "redirect to Envoy",
            Application::start(|_, mut stream| {
                let head = "HTTP/1.1 307 x\r\nLocation: http://localhost:15000/stats/prometheus\r\n\
                    Content-Length: 0\r\n\r\n";
                stream.write_all(head.as_bytes()).unwrap();
            }),
            "",
        ),
    ] {
        let healthy = Application::metrics(TEXT, "d 4\n");
        let agent = agent(&envoy(), &[&application, &healthy]);
        let page = scrape(&agent).body;
        let expected = format!("istio_requests_total{{}} 1\n{contributes}d 4\n");
        assert!(page.ends_with(&expected), "{name}: {page}");
        assert!(failures(&agent) >= 1, "{name}");
    }
}

#[test]
fn endless_application_ends_with_the_scrape() {
    let endless = Application::start(|_, mut stream| {
        let mut written = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while written.is_ok() {
            std::thread::sleep(Duration::from_millis(1));
            written = stream.write_all(b"a 1\n");
        }
    });
    let agent = agent(&envoy(), &[&endless]);
    let page = scrape(&agent).body;
    assert!(page.ends_with("\na 1\n"), "{page}");
    assert!(failures(&agent) >= 1);
}

#[test]
fn redirect_of_the_application_is_followed() {
    let application = Application::start(|head, mut stream| {
        if head.starts_with("get /m/ ") {
            respond(stream, "200 OK", TEXT, "a 1\n");
        } else {
            stream
                .write_all(b"HTTP/1.1 307 x\r\nLocation: /m/\r\nContent-Length: 0\r\n\r\n")
                .unwrap();
        }
    });
    assert!(scrape(&agent(&envoy(), &[&application])).body.ends_with("\na 1\n"));
}

#[test]
fn real_envoy_is_merged_in_text_even_if_protobuf_is_accepted() {
    let (envoy, application) = (Envoy::start(), Application::metrics(TEXT, "a 1\n"));
    let agent = Agent::start(Settings {
        admin: Some(envoy.admin),
        annotations: Some(format!(r#"{{"port":"{}","path":"/m"}}"#, application.port)),
        ..Settings::default()
    });
    let accept =
        "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily\r\n";
    let answer = get(agent.address(), "/stats/prometheus", accept);
    let own = answer.body.find("istio_agent_scrapes_total 1").unwrap();
    let live = answer.body.find("\nenvoy_server_live{} ").unwrap();
    assert!(own < live && answer.body.ends_with("\na 1\n"), "{}", answer.body);
    drop(envoy);
    let page = scrape(&agent).body;
    assert!(page.ends_with("\na 1\n") && !page.contains("envoy_server_live"), "{page}");
    let page = scrape(&agent).body;
    assert!(page.contains("istio_agent_scrape_failures_total{type=\"envoy\"} "), "{page}");
}

#[test]
fn slow_readers_are_bounded_and_do_not_stop_other_requests() {
    let application = Application::metrics(TEXT, BIG.repeat(1_000_000));
    let agent = agent(&envoy(), &[&application]);
    let scrape_from = |client| slow_reader(&agent, client);
    let mut readers = Vec::new();
    for (client, status) in [
        // Two for each client, eight in all.
        (11, 200),
        (11, 200),
        (11, 503),
        (12, 200),
        (12, 200),
        (13, 200),
        (13, 200),
        (13, 503),
        (14, 200),
        (14, 200),
        (15, 503),
    ] {
        let (reader, head) = scrape_from(client);
        assert_eq!(head, format!("HTTP/1.1 {status}"), "client {client}");
        readers.push(reader);
    }
    assert_eq!(get(agent.address(), "/healthz/ready", "").status, 503);
    // The readers are given up although their connections stay open.
    wait::until_within("a scrape is possible again", Duration::from_secs(60), || {
        let (_, head) = scrape_from(15);
        if head == "HTTP/1.1 200" { Ok(()) } else { Err(head) }
    })
    .unwrap();
    drop(readers);
}

#[test]
fn clients_behind_the_proxy_have_all_scrapes() {
    let application = Application::metrics(TEXT, BIG.repeat(1_000_000));
    let agent = agent(&envoy(), &[&application]);
    let readers: Vec<_> = (0..9).map(|_| slow_reader(&agent, 6)).collect();
    let heads: Vec<_> = readers.iter().map(|(_, head)| &**head).collect();
    assert_eq!(heads[..8], ["HTTP/1.1 200"; 8]);
    assert_eq!(heads[8], "HTTP/1.1 503");
}

/// Sends a request from 127.0.0.`client`, and reads the status alone.
fn slow_reader(agent: &Agent, client: u8) -> (TcpStream, String) {
    let mut reader = open_from([127, 0, 0, client].into(), agent.address(), "/metrics");
    let mut head = [0; 12];
    reader.read_exact(&mut head).unwrap();
    (reader, String::from_utf8(head.to_vec()).unwrap())
}

const BIG: &str = "a{b=\"ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc\"} 1\n";
/// Prometheus' timeout, short so that a hanging application ends soon.
const SHORT: &str = "X-Prometheus-Scrape-Timeout-Seconds: 2\r\n";
