//! Probes under the capture rules of `istio-init`, in both families.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::sync::Arc;

use bytes::Bytes;
use e2e::netns::{Namespace, Owner};
use e2e::programs::Programs;
use e2e::wait;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper::{HeaderMap, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::agent::{Agent, Settings};
use crate::application::{Application, TEXT, respond};
use crate::client::get;
use crate::istio_init::istio_init;
use crate::pod;

#[test]
fn probes_bypass_capture_in_both_families() {
    for address in [V4, V6] {
        let address: IpAddr = address.parse().unwrap();
        let pod = captured_pod();
        let all = SocketAddr::new(address, 0);
        let web = pod
            .run(|| {
                Application::listen(all, |head, stream| {
                    let path = head.split(' ').nth(1).unwrap_or_default();
                    match path {
                        "/up" => respond(stream, "200 OK", TEXT, "well"),
                        _ => respond(stream, "503 x", TEXT, "ill"),
                    }
                })
            })
            .unwrap();
        let health = pod.run(|| health_server(address)).unwrap();
        let probers = format!(
            r#"{{
                "/app-health/web/livez": {{"httpGet":{{"path":"/up","port":{port},
                    "httpHeaders":[{{"name":"Host","value":"probe.example"}}]}}}},
                "/app-health/web/readyz": {{"httpGet":{{"path":"/other","port":{port}}}}},
                "/app-health/web/startupz": {{"tcpSocket":{{"port":{port}}}}},
                "/app-lifecycle/web/prestopz": {{"httpGet":{{"path":"/up","port":{port}}}}},
                "/app-health/grpc/livez": {{"grpc":{{"port":{health},"service":"db"}}}},
                "/app-health/grpc/readyz": {{"grpc":{{"port":{health},"service":"ill"}}}},
                "/app-health/none/livez": {{"tcpSocket":{{"port":9}}}}
            }}"#,
            port = web.port
        );
        let settings = Settings { addresses: vec![address], probers, ..Settings::default() };
        let agent = Agent::start_in(&pod, settings);
        for (path, status, body) in [
            ("/app-health/web/livez", 200, "well"),
            ("/app-health/web/readyz", 503, "ill"),
            ("/app-health/web/startupz", 200, ""),
            ("/app-lifecycle/web/prestopz", 200, "well"),
            ("/app-health/grpc/livez", 200, ""),
            ("/app-health/grpc/readyz", 500, "the server says NOT_SERVING\n"),
            ("/app-health/none/livez", 500, "refused"),
            ("/app-health/web/livez/", 404, "ISTIO_KUBE_APP_PROBERS has no entry"),
            ("/app-health/other/livez?port=80", 404, "/app-health/other/livez"),
        ] {
            let server = SocketAddr::new(address, agent.port);
            let headers = "User-Agent: kube-probe/1.35\r\nX-Forwarded-For: 10.0.0.9\r\n";
            let answer = pod.run(|| get(server, path, headers)).unwrap();
            assert_eq!(answer.status, status, "{path}: {}", answer.body);
            assert!(answer.body.contains(body), "{path}: {}", answer.body);
        }
        // Any other connection of the proxy's user is captured.
        let captured = pod.run_as(PROXY, || TcpStream::connect((address, web.port)).is_err());
        assert!(captured.unwrap());
        let source = if address.is_ipv4() { "127.0.0.6" } else { "::6" };
        let requests = web.requests.lock().unwrap();
        let first = &requests[0];
        assert!(first.starts_with(&format!("{source}\nget /up http/1.1\n")), "{first}");
        assert!(first.contains("host: probe.example"), "{first}");
        assert!(first.contains("user-agent: kube-probe/1.35"), "{first}");
        let authority = SocketAddr::new(address, web.port);
        assert!(requests[1].contains(&format!("host: {authority}")), "{requests:?}");
    }
}

#[test]
fn grpc_probes_of_a_go_server_have_its_status() {
    let pod = Arc::new(pod::create(&[V4]));
    let program = Programs::find().unwrap().grpc_application().unwrap();
    let mut servers = Vec::new();
    for (mode, port) in [("health", 7070), ("no-health", 7071)] {
        let mut command = Command::new(&program);
        command.args([mode, &format!("{V4}:{port}")]);
        servers.push(Server(pod.run(|| command.spawn()).unwrap().unwrap()));
        wait::until("it listens", || pod.run(|| TcpStream::connect((V4, port))).unwrap()).unwrap();
    }
    let probers = r#"{
        "/app-health/all/livez": {"grpc":{"port":7070}},
        "/app-health/db/livez": {"grpc":{"port":7070,"service":"db"}},
        "/app-health/ill/livez": {"grpc":{"port":7070,"service":"ill"}},
        "/app-health/other/livez": {"grpc":{"port":7070,"service":"other"}},
        "/app-health/none/livez": {"grpc":{"port":7071}}
    }"#;
    let settings = Settings {
        addresses: vec![V4.parse().unwrap()],
        probers: probers.to_owned(),
        ..Settings::default()
    };
    let agent = Agent::start_in(&pod, settings);
    for (name, status, body) in [
        ("all", 200, ""),
        ("db", 200, ""),
        ("ill", 500, "the server says NOT_SERVING\n"),
        ("other", 500, "gRPC status 5: unknown service\n"),
        ("none", 500, "gRPC status 12: unknown service grpc.health.v1.Health\n"),
    ] {
        let server = (V4.parse::<IpAddr>().unwrap(), agent.port).into();
        let path = format!("/app-health/{name}/livez");
        let answer = pod.run(|| get(server, &path, "")).unwrap();
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(answer.body.ends_with(body), "{path}: {}", answer.body);
    }
}

/// A process that ends with the value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a pod whose connections are captured. Nothing listens on the ports of the proxy, so a
/// captured connection fails.
fn captured_pod() -> Arc<Namespace> {
    let pod = pod::create(&[V4, V6]);
    let mut rules = Command::new(istio_init());
    rules.args(["istio-iptables", "--backend=nftables", "-p", "15001", "-z", "15006"]);
    rules.args(["-u", "1337", "-m", "REDIRECT", "-i", "*", "-x", "", "-b", "*"]);
    rules.args(["-d", "15090,15021,15020", "--dual-stack"]);
    pod.output(&mut rules, "").expect("istio-init");
    pod::wait_for_routes(&pod, &[V4, V6, "::6"]);
    Arc::new(pod)
}

/// Starts a gRPC server that serves all services except `ill`. Returns its port.
fn health_server(address: IpAddr) -> u16 {
    let listener = std::net::TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let service = service_fn(async |request: hyper::Request<hyper::body::Incoming>| {
                    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                    let asked = request.into_body().collect().await?.to_bytes();
                    let health = if asked.ends_with(b"ill") { 2 } else { 1 };
                    Ok::<_, hyper::Error>(health_answer(health))
                });
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service);
                let _ = connection.await;
            }
        });
    });
    port
}

fn health_answer(
    health: u8,
) -> Response<impl hyper::body::Body<Data = Bytes, Error = std::convert::Infallible>> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let message = Bytes::from(vec![0, 0, 0, 0, 2, 8, health]);
    let frames = [Ok(Frame::data(message)), Ok(Frame::trailers(trailers))];
    let body = StreamBody::new(futures::stream::iter(frames));
    Response::builder().header("content-type", "application/grpc").body(body).unwrap()
}

const PROXY: Owner = Owner { uid: 1337, gid: 1337 };
const V4: &str = "192.168.78.2";
const V6: &str = "fd78::2";
