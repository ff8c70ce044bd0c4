//! Requests that the status port rejects, and requests to the supervisor.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use e2e::netns::Namespace;
use pilot_agent::status::ShutdownRequest::{Drain, Quit};
use socket2::{Domain, Socket, Type};

use crate::agent::{Agent, Settings};
use crate::application::Application;
use crate::client::{get, open_from, read, send};
use crate::pod;

#[test]
fn drain_and_quit_are_for_the_own_loopback() {
    let pod = any_pod();
    let addresses = vec![V4.parse().unwrap(), V6.parse().unwrap()];
    let agent = Agent::start_in(&pod, Settings { addresses, ..Settings::default() });
    for path in ["/drain", "/quitquitquit"] {
        for (from, to, status) in [
            ("127.0.0.1", "127.0.0.1", 200),
            ("::1", "::1", 200),
            ("127.0.0.6", "127.0.0.1", 403),
            ("127.0.0.6", V4, 403),
            ("::6", V6, 403),
            (V4, V4, 403),
            (V6, V6, 403),
        ] {
            let to = SocketAddr::new(to.parse().unwrap(), agent.port);
            let answer = pod.run(|| post_from(from.parse().unwrap(), to, path)).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{from} {path}: {answer}");
        }
    }
    assert_eq!(*agent.shutdowns.lock().unwrap(), [Drain, Drain, Quit, Quit]);
}

#[test]
fn metrics_can_be_restricted_to_loopback() {
    let pod = any_pod();
    let addresses = vec![V4.parse().unwrap()];
    let settings = Settings { addresses, metrics_on_loopback_only: true, ..Settings::default() };
    let agent = Agent::start_in(&pod, settings);
    for (to, status) in [("127.0.0.1", 200), (V4, 403)] {
        let to = SocketAddr::new(to.parse().unwrap(), agent.port);
        for path in ["/metrics", "/stats/prometheus"] {
            let answer = pod.run(|| get(to, path, "")).unwrap();
            assert_eq!(answer.status, status, "{to} {path}: {}", answer.body);
        }
    }
}

#[test]
fn other_requests_are_rejected_with_a_reason() {
    let agent = Agent::start(Settings { names: Some(true), ..Settings::default() });
    for (method, path, status, text) in [
        ("GET", "/nothing", 404, "the status port has no path /nothing"),
        ("GET", "/drain", 405, "POST"),
        ("POST", "/healthz/ready", 405, "GET, HEAD"),
        ("DELETE", "/metrics", 405, "GET, HEAD"),
        ("GET", "/debug/ndsz", 200, "{\"table\":{}}"),
    ] {
        let answer = send(agent.address(), method, path, "");
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        assert!(answer.body.contains(text), "{}", answer.body);
        assert_eq!(answer.head.contains("allow: "), status == 405, "{}", answer.head);
    }
    let answer = send(agent.address(), "HEAD", "/healthz/ready", "");
    assert_eq!((answer.status, &*answer.body), (200, ""));
}

#[test]
fn body_of_a_request_is_not_read() {
    let agent = Agent::start(Settings::default());
    let answer = send(agent.address(), "POST", "/drain", "Content-Length: 1000000000000\r\n");
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn oversized_head_is_rejected() {
    let agent = Agent::start(Settings::default());
    for headers in ["X: y\r\n".repeat(100), format!("X: {}\r\n", "y".repeat(64 * 1024))] {
        let mut stream = TcpStream::connect(agent.address()).unwrap();
        // The server may close the connection while the head is written.
        let _ = write!(stream, "GET /healthz/ready HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    assert_eq!(get(agent.address(), "/healthz/ready", "").status, 200);
}

#[test]
fn client_with_too_many_connections_loses_the_first() {
    let agent = Agent::start(Settings::default());
    let mut idle: Vec<_> = (0..65).map(|_| TcpStream::connect(agent.address()).unwrap()).collect();
    assert_eq!(idle.remove(0).read(&mut [0]).unwrap(), 0);
    // The last one is served.
    let mut last = idle.pop().unwrap();
    last.write_all(b"GET /healthz/ready HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    last.read_exact(&mut [0; 12]).unwrap();
    drop(idle);
}

#[test]
fn idle_clients_do_not_shut_out_the_kubelet() {
    let pod = any_pod();
    let addresses = vec![V4.parse().unwrap(), V6.parse().unwrap()];
    let agent = Agent::start_in(&pod, Settings { addresses, ..Settings::default() });
    let port = agent.port;
    let connect = |from: IpAddr, to: &str| {
        let to = SocketAddr::new(to.parse().unwrap(), port);
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        TcpStream::from(socket)
    };
    // 127.0.0.6 and ::6 are clients that the proxy passes on: with the pod's own, four times 64.
    let mut idle = Vec::new();
    for (from, to) in [("127.0.0.6", "127.0.0.1"), ("::6", "::1"), (V4, V4), (V6, V6)] {
        let more =
            pod.run(|| (0..64).map(|_| connect(from.parse().unwrap(), to)).collect::<Vec<_>>());
        idle.extend(more);
    }
    let ready = |to: &str| {
        let to = SocketAddr::new(to.parse().unwrap(), port);
        pod.run(|| get(to, "/healthz/ready", "")).unwrap().status
    };
    assert_eq!((ready("127.0.0.1"), ready(V4), ready(V6)), (200, 200, 200));
    drop(idle);
}

#[test]
fn busy_clients_do_not_shut_out_the_kubelet() {
    let addresses = [V4, V6, "::6", KUBELET];
    let pod = Arc::new(pod::create(&addresses));
    pod::wait_for_routes(&pod, &addresses);
    // Envoy accepts requests and never answers, so that readiness waits.
    let (silent, envoy) = pod
        .run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            (listener.local_addr().unwrap(), listener)
        })
        .unwrap();
    let addresses = vec![V4.parse().unwrap(), V6.parse().unwrap()];
    let settings = Settings { addresses, admin: Some(silent), ..Settings::default() };
    let agent = Agent::start_in(&pod, settings);
    let server = |to: &str| SocketAddr::new(to.parse().unwrap(), agent.port);
    let mut busy = Vec::new();
    for (from, to) in [("127.0.0.6", "127.0.0.1"), ("::6", "::1"), (V4, V4), (V6, V6)] {
        let open = || open_from(from.parse().unwrap(), server(to), "/healthz/ready");
        busy.extend(pod.run(|| (0..64).map(|_| open()).collect::<Vec<_>>()).unwrap());
    }
    // Answers from the same thread: by then it has read the requests before.
    for _ in 0..3 {
        assert_eq!(pod.run(|| get(server("127.0.0.1"), "/nothing", "")).unwrap().status, 404);
    }
    let kubelet = || open_from(KUBELET.parse().unwrap(), server(V4), "/app-health/web/livez");
    assert_eq!(pod.run(|| read(kubelet())).unwrap().status, 404);
    drop((busy, envoy));
}

#[test]
fn handler_ends_with_the_connection_of_the_kubelet() {
    let (told, hear) = std::sync::mpsc::channel();
    let application = Application::start(move |_, mut stream| {
        told.send("asked").unwrap();
        // Returns when the agent closes the connection.
        let _ = stream.read(&mut [0]);
        told.send("left").unwrap();
    });
    let probers = format!(
        r#"{{"/app-lifecycle/web/prestopz":{{"httpGet":{{"port":{}}}}}}}"#,
        application.port
    );
    let agent = Agent::start(Settings { probers, ..Settings::default() });
    let kubelet = crate::client::open(agent.address(), "GET", "/app-lifecycle/web/prestopz", "");
    assert_eq!(hear.recv().unwrap(), "asked");
    drop(kubelet);
    assert_eq!(hear.recv_timeout(std::time::Duration::from_secs(60)), Ok("left"));
}

/// Returns a pod with addresses of both families, and `::6` as under capture.
fn any_pod() -> Arc<Namespace> {
    let addresses = [V4, V6, "::6"];
    let pod = pod::create(&addresses);
    pod::wait_for_routes(&pod, &addresses);
    Arc::new(pod)
}

fn post_from(from: IpAddr, to: SocketAddr, path: &str) -> String {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const V4: &str = "192.168.79.2";
const V6: &str = "fd79::2";
const KUBELET: &str = "192.168.79.1";
