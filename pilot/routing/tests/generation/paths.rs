//! Calls by other ways than a service's address: pods, aliases, unknown hosts, no capture; and
//! peers that prove another identity than the expected one.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::wait::until;
use mesh::mesh_config::MeshConfig;
use pilot_registry::protocol::Protocol::{Http, Mysql, Tcp, Undeclared};
use pilot_registry::service::TargetPort;
use pilot_registry::slice::SliceEndpoint;
use pilot_routing::peer_authentication::MtlsMode::{Disable, Permissive, Strict};
use pilot_routing::view::{MeshView, OutboundPolicy};
use serde_json::Value;

use crate::calls::{DUAL, V4, get};
use crate::pods::{APPLICATION, Pods, UNCAPTURED, exchange};
use crate::proxy::Proxy;
use crate::world::{Port, World, labels};

const SERVER: &str = V4.server;
/// Address of a pod without a sidecar.
const OLD: &str = "10.0.0.3";
/// Address whose pod is not known.
const UNKNOWN: &str = "10.0.0.4";
const VIP: &str = V4.vip;

/// Starts two pods after a change of both views of the mesh.
fn pods(interception: &str, change: impl Fn(&mut World)) -> Pods {
    let (mut client, mut server) = V4.worlds(interception, Permissive);
    change(&mut client);
    change(&mut server);
    Pods::start(&client, &server).unwrap()
}

fn call(pods: &Pods, to: (&str, u16), bytes: &str) -> Result<String> {
    exchange(&pods.client, APPLICATION, to, bytes)
}

/// Adds a headless service of the server's pod. Its clients use the port of the pod.
fn serve_headless(world: &mut World, ports: &[Port]) {
    world.serve("pods.shop", ports, "", &[SERVER]);
    world.pods.pop();
    let service = world.services.last_mut().unwrap();
    service.selector = labels(&[("app", "api")]);
    for port in &mut service.ports {
        port.target = TargetPort::Number(port.number);
    }
    let slice = world.slices.last_mut().unwrap();
    for (port, (number, _)) in slice.ports.iter_mut().zip(ports) {
        port.number = *number;
    }
    slice.endpoints[0].hostname = Some("pods-0".into());
    slice.endpoints[0].pod = Some("api-1".into());
}

#[test]
fn headless_service_is_reached_by_its_pods() {
    let ports = [(7080, Http), (7082, Tcp)];
    let pods = pods("REDIRECT", |world| serve_headless(world, &ports));
    pods.server.serve("0.0.0.0", 7080).unwrap();
    pods.server.serve("0.0.0.0", 7082).unwrap();
    // The service's own name, and the name of a StatefulSet's pod.
    for host in ["pods", "pods.shop.svc.cluster.local", "pods-0.pods", "pods-0.pods.shop:7080"] {
        let answer = call(&pods, (SERVER, 7080), &get(host)).unwrap();
        assert!(answer.contains("http 127.0.0.6"), "{host}: {answer}");
    }
    assert_eq!(call(&pods, (SERVER, 7082), "bytes\n").unwrap(), "echo 127.0.0.6 bytes\n");
}

/// Requests and bytes are encrypted by the address of a pod too; under `STRICT` no others arrive.
#[test]
fn pods_of_a_headless_service_are_reached_by_their_addresses() {
    for protocol in [Http, Undeclared] {
        let pods = pods("REDIRECT", |world| {
            serve_headless(world, &[(7080, protocol)]);
            world.authenticate("shop", "api", Strict, &[]);
        });
        pods.server.serve("0.0.0.0", 7080).unwrap();
        for host in [&*format!("{SERVER}:7080"), SERVER, "pods-0.pods", "pods"] {
            let answer = call(&pods, (SERVER, 7080), &get(host)).unwrap();
            assert!(answer.contains("sa/web"), "{protocol:?} {host}: {answer}");
        }
    }
}

/// The right to label a pod must not decide about the others.
#[test]
fn pod_without_a_sidecar_leaves_the_others_encrypted() {
    let ports = [(7080, Http), (7082, Tcp), (7083, Undeclared)];
    let pods = pods("REDIRECT", |world| {
        serve_headless(world, &ports);
        world.add_pod("old.shop", "api", OLD).workload.takes_mtls = false;
        let slice = world.slices.last_mut().unwrap();
        let mut old = slice.endpoints[0].clone();
        (old.address, old.pod) = (OLD.parse().unwrap(), Some("old".into()));
        let unknown = SliceEndpoint {
            address: UNKNOWN.parse().unwrap(),
            pod: Some("later".into()),
            ..old.clone()
        };
        slice.endpoints.extend([old, unknown]);
    });
    // The pod's namespace has the addresses of all three.
    for address in [OLD, UNKNOWN] {
        pods.server.namespace.ip(&format!("address add {address}/24 dev eth0")).unwrap();
    }
    for (port, bytes) in [(7080, get("pods")), (7082, "bytes\n".into()), (7083, "bytes\n".into())] {
        pods.server.serve("0.0.0.0", port).unwrap();
        let mut handshakes = pods.server.handshakes().unwrap();
        for (address, expected) in [(SERVER, 1), (OLD, 0)] {
            let answer = call(&pods, (address, port), &bytes).unwrap();
            assert!(answer.contains("127.0.0.6"), "{address}:{port}: {answer}");
            let now = pods.server.handshakes().unwrap();
            assert_eq!(now - handshakes, expected, "handshakes to {address}:{port}");
            handshakes = now;
        }
        call(&pods, (UNKNOWN, port), &bytes).unwrap_err();
    }
}

#[test]
fn headless_server_speaks_first_without_mtls() {
    // In permissive mode the proxy would wait for the client, to tell plaintext from TLS.
    let pods = pods("REDIRECT", |world| {
        serve_headless(world, &[(7306, Mysql)]);
        world.authenticate("shop", "api", Disable, &[]);
    });
    pods.server.speak_first("0.0.0.0", 7306).unwrap();
    assert_eq!(call(&pods, (SERVER, 7306), "").unwrap(), "hello 127.0.0.6\n");
}

#[test]
fn aliases_lead_to_services_and_to_external_hosts() {
    let pods = pods("REDIRECT", |world| {
        world.alias("near.shop", &[], "api.shop.svc.cluster.local");
        world.alias("first.shop", &[], "pods-0.pods.shop.svc.cluster.local");
        world.alias("far.shop", &[(7077, Http)], "localhost");
        serve_headless(world, &[(8080, Http)]);
        world.authenticate("shop", "api", Strict, &[]);
    });
    pods.server.serve("0.0.0.0", 8080).unwrap();
    for (host, to) in [("near", (VIP, 80)), ("first", (SERVER, 8080))] {
        let answer = call(&pods, to, &get(host)).unwrap();
        assert!(answer.contains("sa/web"), "{host} has mutual TLS as its target: {answer}");
    }
    // The client's proxy resolves the host: here, to its own pod.
    pods.client.serve("127.0.0.1", 7077).unwrap();
    let answer = call(&pods, (VIP, 7077), &get("far.shop")).unwrap();
    assert!(answer.contains("http 127.0.0.1 none"), "{answer}");
}

#[test]
fn request_that_reached_the_application_runs_once() {
    for protocol in [Http, Undeclared] {
        let pods = pods("REDIRECT", |world| world.services[1].ports[0].protocol = protocol);
        let request = |method: &str| {
            let fields = "host: api\r\nconnection: close\r\ncontent-length: 0";
            let text = format!("{method} / HTTP/1.1\r\n{fields}\r\n\r\n");
            let answer = call(&pods, (VIP, 80), &text).unwrap();
            assert!(!answer.contains("unreached"), "{answer}");
            answer
        };
        // Without an application, requests are repeated.
        let answer = request("POST");
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        let stats = pods.client.proxy.get("/stats?filter=outbound.80.*upstream_rq_retry$").unwrap();
        assert!(stats.contains(".upstream_rq_retry: 2"), "{stats}");
        // A safe one is repeated if its connection ends without an answer: nobody knows whether the
        // application has read it.
        let application = pods.server.answer(8080).unwrap();
        for (answer, [posts, gets]) in [
            ("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", [1, 1]),
            (
                "HTTP/1.1 503 Busy\r\nx-outrigger-unreached: true\r\ncontent-length: 0\r\n\r\n",
                [1, 1],
            ),
            ("", [1, 3]),
        ] {
            application.answers(answer);
            for (method, expected) in [("POST", posts), ("GET", gets)] {
                request(method);
                assert_eq!(application.requests(), expected, "{protocol:?} {method} {answer:?}");
            }
        }
    }
}

#[test]
fn unknown_hosts_pass_through() {
    let pods = pods("REDIRECT", |_| {});
    // Port 80 has HTTP hosts, and 7099 no service at all.
    for port in [80, 7099] {
        pods.server.serve("0.0.0.0", port).unwrap();
        let answer = call(&pods, (SERVER, port), &get("unknown.example")).unwrap();
        assert!(answer.contains("http 127.0.0.6 none"), "{port}: {answer}");
        assert_eq!(call(&pods, (SERVER, port), "bytes\n").unwrap(), "echo 127.0.0.6 bytes\n");
    }
}

#[test]
fn registry_only_refuses_unknown_hosts() {
    let pods = pods("REDIRECT", |world| world.mesh.outbound_policy = OutboundPolicy::RegistryOnly);
    for port in [80, 7099, 8080] {
        pods.server.serve("0.0.0.0", port).unwrap();
    }
    let refused = call(&pods, (SERVER, 80), &get("unknown.example")).unwrap();
    assert!(refused.starts_with("HTTP/1.1 502"), "{refused}");
    for (port, bytes) in [(80, "bytes\n"), (7099, "bytes\n"), (7099, &*get("unknown.example"))] {
        call(&pods, (SERVER, port), bytes).unwrap_err();
    }
    let answer = call(&pods, (VIP, 80), &get("api")).unwrap();
    assert!(answer.contains("http 127.0.0.6"), "{answer}");
}

#[test]
fn client_without_capture_calls_its_proxys_ports() {
    let (mut client, _) = V4.worlds("NONE", Permissive);
    let (_, mut server) = V4.worlds("REDIRECT", Permissive);
    client.proxy.unprivileged = true;
    for world in [&mut client, &mut server] {
        world.services[1].ports[0].number = 7080;
    }
    let pods = Pods::start(&client, &server).unwrap();
    pods.server.serve("0.0.0.0", 8080).unwrap();
    for host in ["api", "api.shop.svc.cluster.local:7080"] {
        let answer = call(&pods, ("127.0.0.1", 7080), &get(host)).unwrap();
        assert!(answer.contains("sa/web"), "{host}: {answer}");
    }
    // Not captured: plaintext to the pod itself.
    let answer = call(&pods, (SERVER, 8080), &get("api")).unwrap();
    assert!(answer.contains("http 127.0.0.6 none"), "{answer}");
}

#[test]
fn server_with_another_identity_is_refused() {
    let (client, server) = V4.worlds("REDIRECT", Permissive);
    let web = "spiffe://cluster.local/ns/shop/sa/web";
    for other in ["spiffe://cluster.local/ns/shop/sa/apis", "spiffe://evil.local/ns/shop/sa/api"] {
        let pods = Pods::with_identities((&client, web), (&server, other)).unwrap();
        pods.server.serve("0.0.0.0", 8080).unwrap();
        pods.server.serve("0.0.0.0", 8081).unwrap();
        let answer = call(&pods, (VIP, 80), &get("api")).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503"), "{other}: {answer}");
        call(&pods, (VIP, 81), "bytes\n").unwrap_err();
        for port in [80, 81] {
            let stat = format!("cluster.outbound|{port}||api.shop.svc.cluster.local.ssl");
            let stats =
                pods.client.proxy.get(&format!("/stats?filter={port}.*verify_san")).unwrap();
            let failures = format!("{stat}.fail_verify_san: ");
            let count = stats.lines().find_map(|line| line.strip_prefix(&*failures));
            assert!(count.is_some_and(|count| count != "0"), "{other}: {stats}");
        }
    }
}

#[test]
fn client_of_an_unknown_trust_domain_is_refused() {
    let alias = |world: &mut World| world.mesh.trust_domain_aliases = vec!["old.local".into()];
    let (mut client, mut server) = V4.worlds("REDIRECT", Strict);
    alias(&mut client);
    alias(&mut server);
    let api = "spiffe://cluster.local/ns/shop/sa/api";
    for (domain, is_accepted) in [("old.local", true), ("cluster.local", true), ("evil", false)] {
        let identity = format!("spiffe://{domain}/ns/shop/sa/web");
        let pods = Pods::with_identities((&client, &identity), (&server, api)).unwrap();
        pods.server.serve("0.0.0.0", 8080).unwrap();
        let answer = call(&pods, (VIP, 80), &get("api")).unwrap();
        assert_eq!(answer.contains(&identity), is_accepted, "{domain}: {answer}");
    }
}

#[test]
fn access_logs_show_requests_and_rejected_connections() {
    let text = "{accessLogFile: /dev/stdout, accessLogEncoding: JSON}";
    let mesh = MeshView::new(&MeshConfig::parse(text).unwrap()).unwrap();
    let (mut client, mut server) = V4.worlds("REDIRECT", Strict);
    for world in [&mut client, &mut server] {
        world.mesh = mesh.clone();
    }
    let pods = Pods::start(&client, &server).unwrap();
    pods.server.serve("0.0.0.0", 8080).unwrap();
    call(&pods, (VIP, 80), &get("api")).unwrap();
    exchange(&pods.client, UNCAPTURED, (SERVER, 8080), &get("api")).unwrap_err();
    // Envoy writes its logs late.
    let logged = |proxy: &Proxy, expected: &[(&str, &str)]| {
        until("the connection is logged", || {
            let said = proxy.said()?;
            let lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let found = lines.into_iter().any(|line| expected.iter().all(|(k, v)| line[k] == *v));
            ensure!(found, "{expected:?} is not in {said}");
            Ok(())
        })
        .unwrap();
    };
    let cluster = "outbound|80||api.shop.svc.cluster.local";
    logged(&pods.client.proxy, &[("upstream_cluster", cluster), ("authority", "api")]);
    logged(&pods.server.proxy, &[("upstream_cluster", "inbound|8080||"), ("method", "GET")]);
    logged(&pods.server.proxy, &[("response_flags", "NR")]);
}

#[test]
fn clients_that_stay_silent_are_forwarded_after_the_timeout() {
    let pods = pods("REDIRECT", |world| world.mesh.detection_timeout = Duration::from_millis(100));
    // A server that speaks first on a port of undeclared protocol.
    pods.server.speak_first("0.0.0.0", 8081).unwrap();
    assert_eq!(call(&pods, (VIP, 81), "").unwrap(), "hello 127.0.0.6\n");
}

#[test]
fn dual_stack_pods_are_reached_on_both_families() {
    let (client, server) = DUAL.worlds("TPROXY", Permissive);
    let pods = Pods::start(&client, &server).unwrap();
    for (any, address, port, own) in
        [("0.0.0.0", SERVER, 7099, V4.client), ("::", "fd00::2", 7098, "fd00::1")]
    {
        pods.server.serve(any, port).unwrap();
        let answer = call(&pods, (address, port), "bytes\n").unwrap();
        assert_eq!(answer, format!("echo {own} bytes\n"));
    }
}
