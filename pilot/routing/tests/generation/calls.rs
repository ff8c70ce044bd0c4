//! Calls between two sidecars with generated configuration: protocol × mode × client, over both
//! families and both kinds of capture.

use std::net::IpAddr;

use anyhow::{Context as _, Result, ensure};
use pilot_registry::protocol::Protocol::{Grpc, Http, Mysql, Undeclared};
use pilot_routing::peer_authentication::MtlsMode::{self, Disable, Permissive, Strict};
use serde_json::json;

use crate::pods::{APPLICATION, Pods, UNCAPTURED, call_grpc, exchange};
use crate::world::World;

#[test]
fn calls_are_encrypted_in_permissive_mode() {
    calls(&V4, "REDIRECT", Permissive).unwrap();
}

#[test]
fn plaintext_is_rejected_in_strict_mode() {
    calls(&V4, "REDIRECT", Strict).unwrap();
}

#[test]
fn calls_are_plaintext_in_disabled_mode() {
    calls(&V4, "REDIRECT", Disable).unwrap();
}

#[test]
fn calls_over_ipv6_are_encrypted() {
    calls(&V6, "REDIRECT", Permissive).unwrap();
}

#[test]
fn dual_stack_client_reaches_the_server_by_either_vip() {
    let (client, server) = DUAL.worlds("REDIRECT", Permissive);
    let pods = Pods::start(&client, &server).unwrap();
    pods.server.serve("0.0.0.0", 8080).unwrap();
    pods.server.serve("::", 8099).unwrap();
    for vip in ["10.96.0.2", "fd96::2"] {
        let answer = exchange(&pods.client, APPLICATION, (vip, 80), &get("api")).unwrap();
        assert!(answer.contains("http 127.0.0.6 by=spiffe"), "{vip}: {answer}");
    }
    let answer = exchange(&pods.client, APPLICATION, ("fd00::2", 8099), &get("x")).unwrap();
    assert!(answer.contains("http ::6 none"), "{answer}");
}

#[test]
fn tproxy_keeps_the_clients_address() {
    for mode in [Permissive, Strict, Disable] {
        calls(&V4, "TPROXY", mode).with_context(|| format!("{mode:?}")).unwrap();
    }
}

#[test]
fn tproxy_keeps_the_clients_address_over_ipv6() {
    calls(&V6, "TPROXY", Permissive).unwrap();
}

/// Addresses of the two pods and of the server's service.
pub(crate) struct Net {
    pub(crate) client: &'static str,
    pub(crate) server: &'static str,
    pub(crate) vip: &'static str,
}

pub(crate) const V4: Net = Net { client: "10.0.0.1", server: "10.0.0.2", vip: "10.96.0.2" };
pub(crate) const V6: Net = Net { client: "fd00::1", server: "fd00::2", vip: "fd96::2" };
pub(crate) const DUAL: Net =
    Net { client: "10.0.0.1,fd00::1", server: "10.0.0.2,fd00::2", vip: "10.96.0.2,fd96::2" };

impl Net {
    /// The mesh as the client's and as the server's proxy see it.
    pub(crate) fn worlds(&self, interception: &str, mode: MtlsMode) -> (World, World) {
        let world = |pod: &str, addresses: &str| {
            let first = addresses.split(',').next().unwrap_or_default();
            let id = format!("sidecar~{first}~{pod}.shop~shop.svc.cluster.local");
            let metadata = json!({"INTERCEPTION_MODE": interception});
            let mut world = World::of_proxy(&id, addresses, metadata);
            let first = |list: &'static str| list.split(',').next().unwrap_or_default();
            world.serve("web.shop", &[], "10.96.0.1", &[first(self.client)]);
            let ports = [(80, Http), (81, Undeclared), (90, Grpc), (91, Undeclared), (3306, Mysql)];
            world.serve("api.shop", &ports, self.vip, &[first(self.server)]);
            world.authenticate("shop", "", mode, &[]);
            world
        };
        (world("web-1", self.client), world("api-1", self.server))
    }
}

pub(crate) fn get(host: &str) -> String {
    format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")
}

fn calls(net: &Net, interception: &str, mode: MtlsMode) -> Result<()> {
    let (client, server) = net.worlds(interception, mode);
    let pods = Pods::start(&client, &server)?;
    let is_v6 = net.server.parse::<IpAddr>()?.is_ipv6();
    let any = if is_v6 { "::" } else { "0.0.0.0" };
    for port in [8080, 8081, 8099] {
        pods.server.serve(any, port)?;
    }
    for port in [8090, 8091] {
        pods.server.serve_grpc(any, port)?;
    }
    pods.server.speak_first(any, 11306)?;

    let vip = net.vip;
    let is_mutual = mode != Disable;
    let source = match (interception, is_v6) {
        ("TPROXY", _) => net.client,
        (_, true) => "::6",
        (_, false) => "127.0.0.6",
    };
    let identity = if is_mutual { "uri=spiffe://cluster.local/ns/shop/sa/web" } else { "none" };
    let mut handshakes = pods.server.handshakes()?;
    let mut encrypted = |what: &str, expected: bool| -> Result<()> {
        let now = pods.server.handshakes()?;
        ensure!((now > handshakes) == expected, "{what}: {handshakes} handshakes, then {now}");
        handshakes = now;
        Ok(())
    };

    let in_url = if is_v6 { format!("[{vip}]") } else { vip.to_owned() };
    let hosts = [
        "api",
        "API",
        "api:80",
        "api.shop",
        "api.shop.svc",
        "api.shop.svc.cluster.local",
        "api.shop.svc.cluster.local.",
        "api.shop.svc.cluster.local:80",
        &in_url,
        &format!("{in_url}:80"),
    ];
    for host in hosts {
        let answer = exchange(&pods.client, APPLICATION, (vip, 80), &get(host)).context("http")?;
        ensure!(answer.contains(&format!("http {source} ")), "{host}: {answer}");
        ensure!(answer.contains(identity), "{host}: {answer}");
    }
    encrypted("declared HTTP", is_mutual)?;
    let answer =
        exchange(&pods.client, APPLICATION, (vip, 81), &get("api")).context("detected HTTP")?;
    ensure!(answer.contains(identity), "detected HTTP: {answer}");
    encrypted("detected HTTP", is_mutual)?;
    let answer =
        exchange(&pods.client, APPLICATION, (vip, 81), "bytes\n").context("detected TCP")?;
    ensure!(answer == format!("echo {source} bytes\n"), "detected TCP: {answer}");
    encrypted("detected TCP", is_mutual)?;
    for port in [90, 91] {
        let answer = call_grpc(&pods.client, APPLICATION, (vip, port), "api").context("gRPC")?;
        ensure!(answer == "delta only", "gRPC on {port}: {answer}");
        encrypted("gRPC", is_mutual)?;
    }
    let answer = exchange(&pods.client, APPLICATION, (vip, 3306), "").context("server first")?;
    ensure!(answer == format!("hello {source}\n"), "server first: {answer}");
    encrypted("server first", is_mutual)?;

    // Plaintext: to a port that no service leads to, and from a client without a sidecar.
    let plain = [
        (APPLICATION, 8099, get(net.server), "none"),
        (UNCAPTURED, 8080, get("api"), "none"),
        (UNCAPTURED, 8081, get("api"), "none"),
        (UNCAPTURED, 8081, "bytes\n".to_owned(), "echo"),
    ];
    for (owner, port, bytes, expected) in plain {
        let answer = exchange(&pods.client, owner, (net.server, port), &bytes);
        let is_answer = |answer: &String| answer.contains(expected) && answer.contains(source);
        // Envoy's own answer says that the server closed the connection.
        let is_expected = answer.as_ref().is_ok_and(is_answer) != (mode == Strict);
        ensure!(is_expected, "plaintext to {port}: {answer:?}");
    }
    encrypted("plaintext", false)
}
